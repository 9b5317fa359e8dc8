package dax_test

import (
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/dag/dax"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/dagtest"
)

func TestBadFilesAreRefusedWithTheirLine(t *testing.T) { dagtest.Errors(t, "job.xml", dax.Parse) }

func TestEveryFieldIsRead(t *testing.T) { dagtest.Workflows(t, dax.Parse) }

func FuzzDAX(f *testing.F) { dagtest.Fuzz(f, dax.Parse) }
