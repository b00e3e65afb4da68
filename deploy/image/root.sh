#!/usr/bin/env bash
# Lays out what the image has besides the program, in a folder: certificate authorities and time zones as this system's signed
# packages have them, a user, and places to write. There is no base image, so there is none that could change under its tag.
set -euo pipefail
root=${1:?usage: root.sh FOLDER}

mkdir -p "$root"/etc/ssl/certs "$root"/usr/share "$root"/tmp "$root"/var/lib/cutover "$root"/home/nonroot
install -m 0644 /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
cp -rL --no-preserve=ownership /usr/share/zoneinfo "$root/usr/share/"
rm -rf "$root"/usr/share/zoneinfo/{posix,right}
printf 'root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n' > "$root/etc/passwd"
printf 'root:x:0:\nnonroot:x:65532:\n' > "$root/etc/group"
# Whatever user the container runs as.
chmod 1777 "$root/tmp" "$root/var/lib/cutover" "$root/home/nonroot"
for needed in etc/ssl/certs/ca-certificates.crt usr/share/zoneinfo/Europe/Berlin; do
    [[ -s $root/$needed ]] || { echo "error: $needed is missing: install ca-certificates and tzdata" >&2; exit 1; }
done
