# syntax=docker/dockerfile:1
# The operator in an image with nothing else in it: a static binary, no shell, no root.

FROM rust:1.95-alpine3.22 AS build
RUN apk add --no-cache musl-dev
WORKDIR /source
COPY . .
# The toolchain of this image is the one the project asks for; rust-toolchain.toml would make rustup fetch it again.
RUN rm -f rust-toolchain.toml \
 && cargo build --release --locked --package rlscaler-cli --bin rlscaler \
 && install -D target/release/rlscaler /image/rlscaler

FROM gcr.io/distroless/static-debian12:nonroot AS operator
COPY --from=build /image/rlscaler /rlscaler
# `nonroot` of distroless, as a number so that Kubernetes can see that it is not root.
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["/rlscaler"]
CMD ["run"]
