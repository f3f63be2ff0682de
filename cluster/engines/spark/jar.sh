#!/usr/bin/env bash
# Builds perigee-spark.jar: jar.sh [SPARK_HOME [JAR]]. Needs a JDK of Java 11 or later and the jars of a Spark, 3.5 or later; the jar runs on all.
# `meson install` calls jar.sh --install FOLDER: where something is missing, the rest is installed all the same. --check says what is missing.
set -euo pipefail
sources=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/java
mode=""
case ${1:-} in
  --install)
    mode=install
    set -- "" "$MESON_INSTALL_DESTDIR_PREFIX/$2/perigee-spark.jar"
    ;;
  --check)
    mode=check
    shift
    ;;
esac
home=${1:-${SPARK_HOME:-}} jar=${2:-perigee-spark.jar}

fail() {
  echo "perigee-spark.jar is not built: $*" >&2
  [[ $mode == install ]] && exit 0  # Meson shows nothing of a script that succeeds; package.sh says it
  exit 1
}

if [[ -z $home ]]; then
  submit=$(command -v spark-submit || true)
  [[ -n $submit ]] || fail "there is no spark-submit on the PATH: say where Spark is, as in jar.sh /opt/spark"
  home=$(dirname "$(dirname "$(readlink -f "$submit")")")
fi
compgen -G "$home/jars/spark-mllib_*.jar" >/dev/null || fail "$home has no jars/spark-mllib_*.jar: it is no folder of a Spark"
for tool in javac jar; do
  command -v "$tool" >/dev/null || fail "there is no $tool: install a JDK (Debian: default-jdk-headless), or build the jar on a machine that has one"
done
[[ $mode == check ]] && exit 0
classes=$(mktemp -d)
trap 'rm -rf "$classes"' EXIT
javac --release 11 -nowarn -proc:none -cp "$home/jars/*" -d "$classes" "$sources"/*.java
jar --create --file "$jar" --main-class org.perigee.spark.Train -C "$classes" .
echo "$jar"
