package wfformat_test

import (
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/dag/internal/dagtest"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/wfformat"
)

func TestErrorsHavePositions(t *testing.T) { dagtest.Errors(t, "job.json", wfformat.Parse) }

func TestEveryFieldIsRead(t *testing.T) { dagtest.Workflows(t, wfformat.Parse) }

func FuzzWfFormat(f *testing.F) { dagtest.Fuzz(f, wfformat.Parse) }
