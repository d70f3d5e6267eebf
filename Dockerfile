# An image with the program, from packages of Debian that are built and looked at here: docs/installing.md. It has an sshd,
# through which mpirun starts ranks on other containers: docs/clusters.md.
FROM debian:12 AS build
COPY . /evenkeel
RUN /evenkeel/launch/build-debs.sh

FROM debian:12-slim
COPY --from=build /evenkeel/build/debs/packages/evenkeel_*.deb /packages/
RUN apt-get update \
 && apt-get install -y --no-install-recommends /packages/evenkeel_*.deb openssh-client openssh-server \
 && rm -rf /var/lib/apt/lists/* /packages /etc/ssh/ssh_host_* \
 && useradd --create-home --uid 1000 evenkeel
COPY launch/kubernetes/ssh_config /etc/ssh/ssh_config.d/evenkeel.conf
COPY launch/kubernetes/sshd_config /home/evenkeel/.sshd_config
USER evenkeel
WORKDIR /home/evenkeel
CMD ["evenkeel", "--help"]
