package skypilot

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/internal/base/yamlfile"
)

// booleans are the words that are true and false in YAML 1.1, which SkyPilot uses.
var booleans = map[string][]string{"True": {"true", "yes", "on"}, "False": {"false", "no", "off"}}

// variable returns the value of a variable as SkyPilot reads it: a boolean or number of its YAML becomes the text that
// Python writes for it. A word in quotes, or with unusual case, like tRUE, is text. variable warns about a number whose
// text changes.
func (r *reader) variable(field string, n *yaml.Node) (string, error) {
	s, err := r.Text(n)
	if err != nil || n.Style != 0 && n.ShortTag() != "!!bool" {
		return s, err
	}
	if text, is := number(s); is && n.Style == 0 {
		if text != s {
			r.job.Warn(yamlfile.PositionOf(n), field,
				"is read as a number, as in SkyPilot, and its text changes: put it in quotes to keep it")
		}
		return text, nil
	}
	for word, known := range booleans {
		for _, k := range known {
			if slices.Contains([]string{k, strings.ToUpper(k), strings.ToUpper(k[:1]) + k[1:]}, s) {
				return word, nil
			}
		}
	}
	return s, nil
}
