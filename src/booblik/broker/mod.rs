//! Topics in a directory, and the server that answers for them.
