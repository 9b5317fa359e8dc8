package story

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// short is an array of members that take ten seconds by the file, so that they run in chunks. One of them fails once.
const short = `apiVersion: tradewind/v1
name: short
tasks:
  a:
    array: 40
    run: |
      echo member $TRADEWIND_ARRAY_INDEX
      echo $TRADEWIND_ARRAY_INDEX >"$TRADEWIND_OUTPUT/n"
      case $TRADEWIND_ATTEMPT in *.7.1) exit 1;; esac
    retries: 1
    resources: {cpus: 1, memory: 1, cloud: aws, region: us-east-1}
    time: 10s
  sum:
    after: [a]
    run: cat "$TRADEWIND_INPUTS"/a*/n | awk '{s += $1} END {print s}'
    resources: {cpus: 2+, cloud: aws, region: us-east-1}
    time: 1m
`

// chunked runs an array of short members. It checks the output of each member, the files that it kept, and whether it
// ran again, and that several members shared an attempt.
func (s *Story) chunked(ctx context.Context) (string, error) {
	var id string
	if err := until(ctx, func() error {
		out, err := s.cli(ctx, short, "submit", "-", "--yes", "--key", "short")
		id = strings.TrimSpace(string(out))
		return err
	}); err != nil {
		return "", err
	}
	var d apitypes.JobDetail
	if err := until(ctx, func() error {
		if err := s.cliJSON(ctx, &d, "status", id); err != nil {
			return err
		}
		if d.State == apitypes.JobFailed || d.State == apitypes.JobCancelled {
			return &finalError{fmt.Errorf("the job is %s: %s", d.State, d.Reason)}
		}
		if d.State != apitypes.JobSucceeded {
			return fmt.Errorf("the job is %s", d.State)
		}
		return nil
	}); err != nil {
		return "", err
	}
	for task, want := range map[string]string{"a[17]": "member 17", "a[7]": "member 7", "sum": "780"} {
		out, err := s.cli(ctx, "", "logs", id, task)
		if err != nil {
			return "", err
		}
		if got := strings.TrimSpace(string(out)); got != want {
			return "", fmt.Errorf("%s has printed %q, not %q", task, got, want)
		}
	}
	if d.TaskList[7].Attempts != 2 {
		return "", fmt.Errorf("a[7] has had %d attempts, not 2", d.TaskList[7].Attempts)
	}
	return s.inChunks(ctx, id)
}

// inChunks counts the members of the array that ran in the attempt of another.
func (s *Story) inChunks(ctx context.Context, id string) (string, error) {
	records, _, err := s.store.Query(ctx, record.JobPart(id), "task#", store.Page{})
	if err != nil {
		return "", err
	}
	chunks, others := 0, 0
	for i := range records {
		var t record.Task
		if err := json.Unmarshal(records[i].Body, &t); err != nil {
			return "", err
		}
		if others += t.Chunk; t.Chunk > 0 {
			chunks++
		}
	}
	if chunks == 0 {
		return "", errors.New("each member had its own attempt")
	}
	return fmt.Sprintf("%s: %d members ran in the attempts of %d others", id, others, chunks), nil
}
