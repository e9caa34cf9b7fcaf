//! What passes through topics: JSON of about 100 bytes.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Payment {
    pub id: u64,
    pub user: String,
    pub amount: u64,
    pub note: String,
}

pub fn payment(id: u64) -> Payment {
    Payment { id, user: format!("u-{}", (id * 7919) % 10_000), amount: id % 1000, note: "x".repeat(40) }
}
