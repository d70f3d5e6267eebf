# An image with the program, from packages of Debian that are built and looked at here: docs/installing.md.
FROM debian:12 AS build
COPY . /evenkeel
RUN /evenkeel/launch/build-debs.sh

FROM debian:12-slim
COPY --from=build /evenkeel/build/debs/packages/evenkeel_*.deb /packages/
RUN apt-get update \
 && apt-get install -y --no-install-recommends /packages/evenkeel_*.deb \
 && rm -rf /var/lib/apt/lists/* /packages \
 && useradd --create-home evenkeel
USER evenkeel
WORKDIR /home/evenkeel
CMD ["evenkeel", "--help"]
