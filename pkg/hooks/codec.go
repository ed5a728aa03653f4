package hooks

import (
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	protobuf "google.golang.org/protobuf/proto"
)

// codec encodes messages as gRPC's own codec does, but into memory of their size.
// gRPC's pool of buffers has none between 32 KiB and 1 MiB (google.golang.org/grpc
// mem/buffer_pool.go): a request and a reply with 64 devices take 1 MiB each, and
// the garbage collection after a call has emptied the pool.
type codec struct{}

func (codec) Name() string { return proto.Name }

func (codec) Marshal(message any) (mem.BufferSlice, error) {
	data, err := protobuf.Marshal(message.(protobuf.Message))
	return mem.BufferSlice{mem.SliceBuffer(data)}, err
}

func (codec) Unmarshal(data mem.BufferSlice, message any) error {
	return protobuf.Unmarshal(data.Materialize(), message.(protobuf.Message))
}
