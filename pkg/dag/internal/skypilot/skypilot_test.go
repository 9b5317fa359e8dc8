package skypilot_test

import (
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/dag/internal/dagtest"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/skypilot"
)

func TestErrorsHavePositions(t *testing.T) { dagtest.Errors(t, "job.yaml", skypilot.Parse) }

func TestEveryFieldIsRead(t *testing.T) { dagtest.Workflows(t, skypilot.Parse) }

func FuzzSkyPilot(f *testing.F) { dagtest.Fuzz(f, skypilot.Parse) }
