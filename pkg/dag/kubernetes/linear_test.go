package kubernetes_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/base/lineartest"
	"github.com/tradewind-broker/tradewind/pkg/dag/kubernetes"
)

func TestReadingQueuesTakesTimeLinearInSize(t *testing.T) {
	lineartest.Reading(t, func(n int) string {
		var text strings.Builder
		for i := range n {
			fmt.Fprintf(&text, "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: q%d}\n"+
				"spec: {parent: q%d, capability: {cpu: 4}}\n---\n", i, i/2)
		}
		return text.String()
	}, func(text string) error {
		_, _, _, err := kubernetes.Queues("queues.yaml", []byte(text))
		return err
	})
}
