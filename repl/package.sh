#!/usr/bin/env bash
# Makes a Debian package of what is built: package.sh BUILD FOLDER, called by `./perigee package`. Nothing is compiled or fetched.
set -euo pipefail
build=$1 folder=$2
root=$(cd "$(dirname "$0")/.." && pwd)
version=$(sed -n "s/^ *version: '\(.*\)',$/\1/p" "$root/meson.build" | head -n 1)
architecture=$(dpkg --print-architecture)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The same files as `meson install`, but under /usr: programs and libraries find each other by relative paths.
meson install -C "$build" --destdir "$work/installed" --no-rebuild --strip --quiet
bash "$root/cluster/engines/spark/jar.sh" --check || true  # it went along, or is said to be missing
prefix=$(dirname "$(dirname "$(find "$work/installed" -path '*/bin/perigee')")")
mkdir -p "$work/package/DEBIAN"
mv "$prefix" "$work/package/usr"
find "$work/package" -name perigee.pc -exec sed -i 's|^prefix=.*|prefix=/usr|' {} +
# Debian's places: compressed manual pages, and completions where its zsh looks.
gzip -9n "$work"/package/usr/share/man/man1/*.1
mkdir -p "$work/package/usr/share/zsh/vendor-completions"
mv "$work"/package/usr/share/zsh/site-functions/_perigee "$work/package/usr/share/zsh/vendor-completions/"
rmdir "$work/package/usr/share/zsh/site-functions"
install -Dm644 "$root/LICENSE" "$work/package/usr/share/doc/perigee/copyright"
find "$work/package" -type d -exec chmod 755 {} +

# The packages that own the libraries it is linked with; the module for GPUs has all but the driver inside.
mkdir "$work/debian"
printf 'Source: perigee\n\nPackage: perigee\nArchitecture: any\n' >"$work/debian/control"
library=$(find "$work/package" -name 'libperigee.so.*.*.*')
depends=$(cd "$work" && dpkg-shlibdeps -O --ignore-missing-info -l"$(dirname "$library")" -e"$work/package/usr/bin/perigee" -e"$library" 2>/dev/null |
  sed -n 's/^shlibs:Depends=//p')

cat >"$work/package/DEBIAN/control" <<CONTROL
Package: perigee
Version: $version
Architecture: $architecture
Maintainer: The Perigee authors <perigee@localhost>
Installed-Size: $(du -sk "$work/package/usr" | cut -f1)
Depends: $depends
Recommends: libcurl4, libjpeg62-turbo, libpcre2-8-0, libpng16-16, libsndfile1, libstemmer0d, libutf8proc2, libwebp7, libtiff6, libzstd1
Section: science
Priority: optional
Description: trains neural networks on one machine or on many
 A Lua script, JSON or C++ describes the network, the data and how it is
 trained; a small C++ runtime executes it on one machine or on a cluster.
 With the program come manual pages, a tutorial with example scripts, the
 library and its headers for C and C++.
CONTROL
echo 'activate-noawait ldconfig' >"$work/package/DEBIAN/triggers"
(cd "$work/package" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) >"$work/package/DEBIAN/md5sums"

mkdir -p "$folder"
dpkg-deb --root-owner-group --build "$work/package" "$folder/perigee_${version}_$architecture.deb" >/dev/null
echo "$folder/perigee_${version}_$architecture.deb"
