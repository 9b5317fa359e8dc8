package recordcache_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// typeOf returns a value of the type of a record, by its key; nil for an unknown kind.
func typeOf(partition, sort string) any {
	kind := partition
	switch head, _, _ := strings.Cut(partition, "#"); head {
	case "queue":
		return &apitypes.Waiting{}
	case "job":
		kind, _, _ = strings.Cut(sort, "#")
	}
	switch kind {
	case record.PartJobs, record.PartActive:
		return &record.JobIndex{}
	case record.PartQueues:
		return &apitypes.Queue{}
	case record.PartMarket:
		return &record.MarketRecord{}
	case record.PartBlocks:
		return &apitypes.Block{}
	case "job":
		return &record.Job{}
	case "ledger":
		return &record.Ledger{}
	case "progress":
		return &record.Progress{}
	case "task":
		return &record.Task{}
	case "attempt":
		return &apitypes.Attempt{}
	case "cluster":
		return &record.Cluster{}
	case "planned":
		return &apitypes.PlanHead{}
	}
	return nil
}

// missing returns the first member of a JSON value that another does not have, or has with another value.
func missing(path string, old, now any) string {
	switch old := old.(type) {
	case map[string]any:
		have, _ := now.(map[string]any)
		for name, v := range old {
			if m := missing(path+"."+name, v, have[name]); m != "" {
				return m
			}
		}
		return ""
	case []any:
		have, _ := now.([]any)
		if len(have) != len(old) {
			return path
		}
		for i := range old {
			if m := missing(fmt.Sprint(path, "[", i, "]"), old[i], have[i]); m != "" {
				return m
			}
		}
		return ""
	}
	zero := old == nil || old == false || old == 0.0 || old == ""
	if fmt.Sprint(old) == fmt.Sprint(now) || zero && now == nil {
		return ""
	}
	return path
}

// TestRecordsOfReleasesAreRead reads the golden records of each release with the present types: every member that a
// release has written is known, and written again with the same value. scripts/golden-records.sh makes them.
func TestRecordsOfReleasesAreRead(t *testing.T) {
	files, err := filepath.Glob("testdata/releases/*.jsonl")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			kinds := map[string]bool{}
			for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
				var r struct {
					Partition, Sort string
					Body            json.RawMessage
				}
				if err := json.Unmarshal(s.Bytes(), &r); err != nil {
					t.Fatal(err)
				}
				value := typeOf(r.Partition, r.Sort)
				if value == nil {
					t.Errorf("no type for %s/%s", r.Partition, r.Sort)
					continue
				}
				kinds[fmt.Sprintf("%T", value)] = true
				if err := json.Unmarshal(r.Body, value); err != nil {
					t.Errorf("%s/%s: %v", r.Partition, r.Sort, err)
					continue
				}
				again, err := json.Marshal(value)
				if err != nil {
					t.Fatal(err)
				}
				var old, now any
				if err := json.Unmarshal(r.Body, &old); err != nil {
					t.Fatal(err)
				}
				if err := json.Unmarshal(again, &now); err != nil {
					t.Fatal(err)
				}
				if m := missing("", old, now); m != "" {
					t.Errorf("%s/%s loses %s:\n%s\n%s", r.Partition, r.Sort, m, r.Body, again)
				}
			}
			if len(kinds) < 9 {
				t.Errorf("only %d kinds of records: %v", len(kinds), kinds)
			}
		})
	}
}
