package native_test

import (
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/dag/internal/dagtest"
	"github.com/tradewind-broker/tradewind/pkg/dag/native"
)

func TestBadFilesAreRefusedWithTheirLine(t *testing.T) { dagtest.Errors(t, "job.yaml", native.Parse) }

func TestEveryFieldIsRead(t *testing.T) { dagtest.Workflows(t, native.Parse) }

func FuzzNative(f *testing.F) { dagtest.Fuzz(f, native.Parse) }
