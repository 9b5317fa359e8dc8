package story

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Aftermath prints information for debugging a failure: the end of every log, the messages in queues and outbox, and
// the records of the job.
func (s *Story) Aftermath(ctx context.Context, out io.Writer) {
	w := s.World
	paths, _ := filepath.Glob(filepath.Join(w.Dir, "logs", "*.log"))
	for _, p := range paths {
		raw, err := os.ReadFile(p) //nolint:gosec // in the rehearsal's own folder
		if err == nil && len(raw) > 0 {
			_, _ = fmt.Fprintf(out, "--- %s\n%s\n", filepath.Base(p), raw[max(0, len(raw)-1500):])
		}
	}
	_, _ = io.WriteString(out, w.Hypervisor.Consoles())
	s.queues(ctx, out)
	if s.store == nil || s.job == "" {
		return
	}
	waiting, err := s.store.Outbox(ctx, 100)
	_, _ = fmt.Fprintf(out, "--- outbox: %d events %v\n", len(waiting), err)
	for _, e := range waiting {
		_, _ = fmt.Fprintf(out, "%.300s\n", e.Body)
	}
	records, _, err := s.store.Query(ctx, "job#"+s.job, "", store.Page{})
	_, _ = fmt.Fprintf(out, "--- records of %s %v\n", s.job, err)
	for _, r := range records {
		_, _ = fmt.Fprintf(out, "%s %.900q\n", r.Key.Sort, r.Body)
	}
}

// queues prints the number of messages in each queue.
func (s *Story) queues(ctx context.Context, out io.Writer) {
	w := s.World
	_, _ = fmt.Fprintln(out, "--- queues: visible, in flight")
	client := sqs.NewFromConfig(w.Config)
	for _, q := range w.Template.Of("AWS::SQS::Queue") {
		name := q.Text("QueueName")
		url := w.QueueURL(name)
		got, err := client.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
			QueueUrl: &url, AttributeNames: []types.QueueAttributeName{
				types.QueueAttributeNameApproximateNumberOfMessages,
				types.QueueAttributeNameApproximateNumberOfMessagesNotVisible,
			},
		})
		if err != nil {
			_, _ = fmt.Fprintf(out, "%s: %v\n", name, err)
			continue
		}
		var n []string
		for _, k := range slices.Sorted(maps.Keys(got.Attributes)) {
			n = append(n, got.Attributes[k])
		}
		if !slices.Equal(n, []string{"0", "0"}) {
			_, _ = fmt.Fprintf(out, "%s: %v\n", aws.ToString(&name), n)
		}
	}
}
