#!/bin/sh
# Proves that a backup of the ledger can be restored: takes one of a database in use, restores it into an empty one, and checks
# there that the books balance. Changes nothing in the first.
#
#   createdb tollway_drill
#   deploy/backup/drill.sh postgresql://…/tollway postgresql://…/tollway_drill
#
# Needs pg_dump, pg_restore and psql of the server's version or newer, and a role that may read all tables (the owner's).
# With DUMP=file the backup is kept there; with RESTORE_ONLY=1 that file is restored and none is taken.
set -eu

if [ $# -ne 2 ]; then
    echo "usage: $0 DATABASE_URL EMPTY_DATABASE_URL" >&2
    exit 2
fi
here=$(dirname "$0")
if [ -n "$(psql --no-psqlrc -Atc 'SELECT 1 FROM pg_tables WHERE schemaname = current_schema() LIMIT 1' "$2")" ]; then
    echo "the second database is not empty: nothing is overwritten" >&2
    exit 2
fi
if [ -n "${DUMP:-}" ]; then
    dump=$DUMP
else
    dump=$(mktemp)
    trap 'rm -f "$dump"' EXIT
fi
if [ -z "${RESTORE_ONLY:-}" ]; then
    pg_dump --format=custom --file="$dump" "$1"
    echo "backup taken: $(wc -c <"$dump") bytes"
fi
pg_restore --exit-on-error --single-transaction --dbname="$2" "$dump"
echo "restored"
psql --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --file="$here/invariants.sql" "$2"
echo "the books balance"
