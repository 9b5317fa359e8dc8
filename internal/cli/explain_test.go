package cli

import (
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

func TestExplainFoldsMembersOfAnArray(t *testing.T) {
	entries := foldedEntries([]apitypes.Entry{
		{Kind: "planned", Text: "first plan"}, {Kind: "launched", Task: "a[0]", Text: "on x"},
		{Kind: "launched", Task: "a[1]", Text: "on x"}, {Kind: "failed", Task: "a[1]", Text: "exit code 1"},
		{Kind: "launched", Task: "b", Text: "on y"}, {Kind: "launched", Task: "b", Text: "on z"},
	})
	if len(entries) != 5 || entries[1].Task != "a" || entries[1].Text != "2 members: a[0] on x" {
		t.Errorf("the entries are %+v", entries)
	}
	choices := foldedChoices([]apitypes.TaskWhy{
		{Task: "p", Chosen: "x", USD: 1}, {Task: "a[0]", Chosen: "x", USD: 1}, {Task: "a[1]", Chosen: "x", USD: 2},
		{Task: "a[2]", Chosen: "y", USD: 4},
	})
	if len(choices) != 3 || choices[1].Task != "a[0-1]  2 members" || choices[1].USD != 3 || choices[2].Task != "a[2]" {
		t.Errorf("the choices are %+v", choices)
	}
}
