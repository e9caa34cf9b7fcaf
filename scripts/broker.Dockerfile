# `slipstream broker serve` from this checkout; docker-compose.yml builds it. Needs no C++ compiler.
FROM rust:1.95-slim-bookworm AS build
WORKDIR /build
COPY . .
RUN cargo build --release --locked --no-default-features --features cli --bin slipstream

FROM debian:bookworm-slim
RUN useradd --system --uid 10001 booblik && install -d -o booblik /var/lib/booblik
COPY --from=build /build/target/release/slipstream /usr/local/bin/slipstream
USER booblik
VOLUME /var/lib/booblik
ENV BOOBLIK_DATA_DIR=/var/lib/booblik BOOBLIK_LISTEN=0.0.0.0:9092
EXPOSE 9092
HEALTHCHECK --interval=30s --timeout=10s --start-period=15s --retries=3 \
    CMD slipstream broker health --broker "127.0.0.1:${BOOBLIK_PORT:-9092}"
ENTRYPOINT ["slipstream", "broker", "serve"]
