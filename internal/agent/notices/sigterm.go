package notices

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/tradewind-broker/tradewind/internal/base/clock"
)

// Google is the name of the watcher for machines of Google Cloud.
const Google = "gcp"

// Kubernetes is the name of the watcher for pods.
const Kubernetes = "kubernetes"

// podGrace is a pod's default grace period.
const podGrace = 30 * time.Second

// TermIsNotice reports whether SIGTERM is a notice on a cloud. The agent then has time to save, and ends only after
// its report to the broker. On other clouds, SIGTERM ends the agent.
func TermIsNotice(cloud string) bool { return cloud == Google || cloud == Kubernetes }

// sigterm treats SIGTERM as a notice: the remaining processes are killed after the grace period, in a pod by the
// kubelet, on a machine by the cut of its power.
type sigterm struct {
	grace time.Duration
	clock clock.Clock
}

// Watch implements Watcher.
func (s *sigterm) Watch(ctx context.Context, tell func(Notice)) {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM)
	defer signal.Stop(told)
	select {
	case <-told:
		tell(Notice{Kind: Interruption, ID: "SIGTERM", At: s.clock.Now().Add(s.grace)})
		<-ctx.Done() // ignore further signals
	case <-ctx.Done():
	}
}
