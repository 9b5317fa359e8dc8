package dag

import (
	"errors"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/fault"
	"github.com/tradewind-broker/tradewind/pkg/catalog/accel"
)

// normalizeAccelerator gives the canonical name of an accelerator. A name that is not known but near
// one that is, or that is a family of machines, is refused with a suggestion. Others are kept, for
// a catalogue of the user's own may have them: planning says so when none has.
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
			"it carries "+unknown.Suggestions[0],
		)
	}
	return "", fault.New(
		"unknown accelerator "+fault.Quote(name),
		"did you mean "+strings.Join(unknown.Suggestions, " or ")+"?",
	)
}
