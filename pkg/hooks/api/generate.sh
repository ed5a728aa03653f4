#!/bin/sh
# Generates the Go code of every .proto file in this directory.
set -eu
cd "$(dirname "$0")/../../.."

# The versions of the plugins are those of tools/go.mod, not of the machine.
gen_go=$(go tool -modfile=tools/go.mod -n protoc-gen-go)
gen_go_grpc=$(go tool -modfile=tools/go.mod -n protoc-gen-go-grpc)

protoc --proto_path=. \
	--plugin="protoc-gen-go=$gen_go" \
	--plugin="protoc-gen-go-grpc=$gen_go_grpc" \
	--go_out=. --go_opt=module=hook-sidecar \
	--go-grpc_out=. --go-grpc_opt=module=hook-sidecar \
	pkg/hooks/api/*/*.proto

# Remove the line with protoc's version, because CI compares bytes and only this
# line differs between machines.
for file in pkg/hooks/api/*/*.pb.go; do
	grep -v '^// .*[[:space:]]protoc  *v[0-9.]*$' "$file" >"$file.new"
	mv "$file.new" "$file"
done
