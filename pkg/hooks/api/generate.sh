#!/bin/sh
# Generates the Go code of every .proto file below this folder.
set -eu
cd "$(dirname "$0")/../../.."

# The plugins are built from tools/go.mod, so that their version is the
# project's and not the machine's.
gen_go=$(go tool -modfile=tools/go.mod -n protoc-gen-go)
gen_go_grpc=$(go tool -modfile=tools/go.mod -n protoc-gen-go-grpc)

protoc --proto_path=. \
	--plugin="protoc-gen-go=$gen_go" \
	--plugin="protoc-gen-go-grpc=$gen_go_grpc" \
	--go_out=. --go_opt=module=hook-sidecar \
	--go-grpc_out=. --go-grpc_opt=module=hook-sidecar \
	pkg/hooks/api/*/*.proto

# The line that names protoc's version goes: it is the only thing that differs
# between the protoc of two machines, and CI compares bytes.
for file in pkg/hooks/api/*/*.pb.go; do
	grep -v '^// .*[[:space:]]protoc  *v[0-9.]*$' "$file" >"$file.new"
	mv "$file.new" "$file"
done
