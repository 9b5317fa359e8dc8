package api

import (
	"context"
	"errors"
	"slices"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

// AppendAll returns a function that completes the log of an attempt: it appends the part of the whole output that the
// log lacks, in pieces like those of an agent.
func AppendAll(logs Logs) func(ctx context.Context, job, attempt string, all []byte) error {
	return func(ctx context.Context, job, attempt string, all []byte) error {
		log := Log{Job: job, Attempt: attempt}
		has, err := logs.Size(ctx, log)
		if err != nil && !errors.Is(err, ErrNoLog) {
			return err
		}
		for piece := range slices.Chunk(all[min(has, int64(len(all))):], wire.MaxLogChunk) {
			if err := logs.Append(ctx, log, has, piece); err != nil {
				return err
			}
			has += int64(len(piece))
		}
		return nil
	}
}
