//go:build js

package main

import (
	"crypto/sha256"
	"encoding/binary"
)

// stream is the randomness of an evaluation: the SHA-256 of its seed and a counter, block after block. Equal seeds give
// equal bytes in every run.
type stream struct {
	seed    string
	counter uint64
	rest    []byte
}

func newStream(seed string) *stream { return &stream{seed: seed} }

func (s *stream) Read(to []byte) (int, error) {
	for n := 0; n < len(to); {
		if len(s.rest) == 0 {
			block := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(s.seed+"\x00"), s.counter))
			s.counter++
			s.rest = block[:]
		}
		copied := copy(to[n:], s.rest)
		s.rest = s.rest[copied:]
		n += copied
	}
	return len(to), nil
}
