package read_test

import (
	"bytes"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/dagtest"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

func FuzzRead(f *testing.F) {
	for _, text := range []string{minimal, "run: x\n---\nrun: y\n", `<adag><job id="a"/></adag>`,
		`{"name":"w","schemaVersion":"1.5","workflow":{"specification":{"tasks":[{"id":"a"}]}}}`} {
		f.Add([]byte(text))
		f.Add(gzipped(f, []byte(text)))
	}
	dagtest.Fuzz(f, func(name string, data []byte) (*dag.Job, error) { return read.Job(name, bytes.NewReader(data)) })
}
