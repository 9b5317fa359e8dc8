// Records prints the records of the state folder of a broker in one process, as JSON lines, for the golden records of a
// release (scripts/golden-records.sh). It leaves out records that are not JSON: packed definitions and plans.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/store/bolt"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

func main() {
	if err := run(context.Background(), os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "records:", err)
		os.Exit(1)
	}
}

// line is one record.
type line struct {
	Partition string          `json:"partition"`
	Sort      string          `json:"sort"`
	Body      json.RawMessage `json:"body"`
}

func run(ctx context.Context, out io.Writer, args []string) (err error) {
	if len(args) != 1 {
		return errors.New("usage: records STATE")
	}
	s, err := bolt.Open(filepath.Join(args[0], "tradewind.db"), bolt.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	partitions := []string{record.PartJobs, record.PartActive, record.PartBlocks, record.PartMarket, record.PartPrices,
		record.PartQueues, record.PartHeld, record.PartStands}
	jobs, _, err := s.Query(ctx, record.PartActive, "", store.Page{})
	if err != nil {
		return err
	}
	all, _, err := s.Query(ctx, record.PartJobs, "", store.Page{})
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, r := range append(jobs, all...) {
		var index record.JobIndex
		if err := json.Unmarshal(r.Body, &index); err != nil {
			return fmt.Errorf("%s/%s: %w", r.Key.Partition, r.Key.Sort, err)
		}
		if !seen[index.ID] {
			seen[index.ID] = true
			partitions = append(partitions, record.JobPart(index.ID))
		}
	}
	queues, _, err := s.Query(ctx, record.PartQueues, "", store.Page{})
	if err != nil {
		return err
	}
	for _, r := range queues {
		partitions = append(partitions, record.WaitPart(r.Key.Sort))
	}
	e := json.NewEncoder(out)
	for _, p := range partitions {
		records, _, err := s.Query(ctx, p, "", store.Page{})
		if err != nil {
			return err
		}
		for _, r := range records {
			if !json.Valid(r.Body) {
				continue
			}
			if err := e.Encode(line{r.Key.Partition, r.Key.Sort, r.Body}); err != nil {
				return err
			}
		}
	}
	return nil
}
