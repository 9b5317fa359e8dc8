package logs

import (
	"context"
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/internal/api"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Remover removes the output of jobs that are gone.
type Remover struct {
	Store   store.Store
	Objects Objects
}

var _ broker.Logs = Remover{}

// ExpireLogs implements broker.Logs. It marks the records, so that they go even while the deployment sleeps.
func (r Remover) ExpireLogs(ctx context.Context, job string, attempts []broker.LogOf, at time.Time) error {
	return r.rewrite(ctx, job, attempts, func(p store.Record) store.Write {
		return store.Write{Op: store.Put, Key: p.Key, Expect: store.Any, Body: p.Body, Expires: at}
	})
}

// RemoveLogs implements broker.Logs.
func (r Remover) RemoveLogs(ctx context.Context, job string, attempts []broker.LogOf) error {
	if err := r.rewrite(ctx, job, attempts, func(p store.Record) store.Write {
		return store.Write{Op: store.Delete, Key: p.Key, Expect: store.Any}
	}); err != nil {
		return err
	}
	if err := r.Objects.RemoveAll(ctx, "logs/"+job+"/"); err != nil {
		return fmt.Errorf("logs: %w", err)
	}
	return nil
}

// rewrite changes the records of logs.
func (r Remover) rewrite(ctx context.Context, job string, attempts []broker.LogOf,
	how func(store.Record) store.Write) error {
	for _, a := range attempts {
		for rank := range a.Ranks {
			at, err := prefix(api.Log{Job: job, Attempt: a.Attempt, Rank: rank})
			if err == nil {
				err = r.rewritePieces(ctx, at, how)
			}
			if err != nil {
				return fmt.Errorf("logs: %s: %w", at, err)
			}
		}
	}
	return nil
}

func (r Remover) rewritePieces(ctx context.Context, at string, how func(store.Record) store.Write) error {
	after := ""
	for more := true; more; {
		page := store.Page{After: after, Limit: store.MaxItems}
		records, others, err := r.Store.Query(ctx, at, "", page)
		if err != nil {
			return err
		}
		more = others
		var tx store.Tx
		for i := range records {
			after = records[i].Key.Sort
			tx.Writes = append(tx.Writes, how(records[i]))
		}
		if err := r.Store.Commit(ctx, tx); err != nil {
			return err
		}
	}
	return nil
}
