package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

// runChunk runs the other members of the attempt's chunk, one after the other, and returns how each has ended. A
// member that fails does not stop the members after it. A command, or a fault of the machine, ends the chunk: the
// result lacks the members that have not ended.
func (t *attempt) runChunk(ctx context.Context) (ends []wire.ChunkEnd) {
	for i, m := range t.work.Chunk {
		if told, _ := t.ordered(); told != orderNone || ctx.Err() != nil {
			return ends
		}
		member := t.member(t.work.Member(m), i+1)
		began := time.Now()
		result := member.execute(ctx)
		if result.Event != wire.Succeeded && result.Event != wire.Failed || result.Fault != "" {
			return ends
		}
		end := wire.ChunkEnd{Attempt: m.Attempt, Ran: time.Since(began), Failed: result.Event == wire.Failed,
			ExitCode: result.ExitCode, Phase: result.Phase, Message: result.Message, Empty: result.Empty}
		end.LogFrom, end.Log, end.LogTimes = member.endOfLog(ctx, time.Now().Add(flushTimeout))
		t.log.Info("member of a chunk ends", "attempt", m.Attempt, "event", result.Event, "exit", result.ExitCode)
		ends = append(ends, end)
	}
	return ends
}

// member returns the attempt of another member of the chunk. It gets its orders from t, and t reports its end.
func (t *attempt) member(work *wire.Assignment, number int) *attempt {
	return &attempt{
		agent: t.agent, work: work, lead: t, mask: t.mask, reports: t.reports, sooner: t.sooner,
		dirs:          dirsIn(fmt.Sprintf("%s-%d", t.dirs.top, number)),
		unlessOrdered: t.unlessOrdered, unlessStopped: t.unlessStopped, logShare: t.logShare,
	}
}

// endOfLog sends the log of an attempt and returns its end, if that is short enough for the report of the attempt's
// end.
func (t *attempt) endOfLog(ctx context.Context, until time.Time) (from int64, rest []byte, times string) {
	if t.out == nil {
		return 0, nil, ""
	}
	flush, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	from, rest = t.out.last(flush, min(t.work.Pace.Tail, t.logShare))
	return from, rest, t.out.times(from, len(rest))
}
