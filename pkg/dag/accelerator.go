package dag

import (
	"errors"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/catalog/accel"
)

// CommonGPUs returns the GPUs that a task of another tool may get if it requests GPUs without a type: those that are
// common in the clouds.
func CommonGPUs() []string { return []string{"T4", "L4", "A10G", "V100", "A100", "A100-80GB", "H100"} }

// normalizeAccelerator returns the canonical name of an accelerator. It rejects an unknown name that is similar to a
// known one, and the name of a family of machines, with a suggestion. It accepts other unknown names, because a
// user's own catalogue may have them: if no catalogue does, planning reports it.
func normalizeAccelerator(name string) (string, error) {
	canonical, err := accel.Normalize(name)
	var unknown *accel.UnknownError
	switch {
	case err == nil:
		return canonical, nil
	case !errors.As(err, &unknown) || len(unknown.Suggestions) == 0:
		return strings.ReplaceAll(strings.TrimSpace(name), " ", "-"), nil
	case unknown.Family:
		return "", fault.New(
			fault.Quote(name)+" is a family of machines, not an accelerator",
			"its machines have "+unknown.Suggestions[0],
		)
	}
	return "", fault.New(
		"unknown accelerator "+fault.Quote(name),
		"did you mean "+strings.Join(unknown.Suggestions, " or ")+"?",
	)
}
