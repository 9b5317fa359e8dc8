package skypilot

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/internal/yamlfile"
)

// truths are the words that YAML 1.1, which SkyPilot reads, takes for true and false.
var truths = map[string][]string{"True": {"true", "yes", "on"}, "False": {"false", "no", "off"}}

// variable is the value of one as SkyPilot has it: what its YAML takes for a truth or a number is written as Python
// writes that. A word in quotes is text, and so is one that is written as no truth is, like tRUE. It warns of numbers
// that come out as another text.
func (r *reader) variable(field string, n *yaml.Node) (string, error) {
	s, err := r.Text(n)
	if err != nil || n.Style != 0 && n.ShortTag() != "!!bool" {
		return s, err
	}
	if text, is := number(s); is && n.Style == 0 {
		if text != s {
			r.job.Warn(yamlfile.PositionOf(n), field,
				"is read as a number, as SkyPilot does, and comes out as another text: put it in quotes to keep it")
		}
		return text, nil
	}
	for word, known := range truths {
		for _, k := range known {
			if slices.Contains([]string{k, strings.ToUpper(k), strings.ToUpper(k[:1]) + k[1:]}, s) {
				return word, nil
			}
		}
	}
	return s, nil
}
