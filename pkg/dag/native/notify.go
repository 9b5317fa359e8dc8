package native

import (
	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/base/yamlfile"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// ReadNotify reads the recipients that are notified when a job ends. The configuration of a broker has the same
// fields.
func ReadNotify(y *yamlfile.Reader, n *yaml.Node, to *dag.Notify) error {
	address := yamlfile.Checked(jobtext.CheckAddress)
	err := yamlfile.ReadFields(y, n, yamlfile.Fields[*dag.Notify]{
		"webhook": yamlfile.TextField(y, func(n *dag.Notify) *string { return &n.Webhook },
			yamlfile.Checked(jobtext.CheckWebhook)),
		"command": yamlfile.TextField(y, func(n *dag.Notify) *string { return &n.Command },
			yamlfile.Checked(jobtext.CheckScript)),
		"email": func(to *dag.Notify, n *yaml.Node) error {
			if n.Kind != yaml.SequenceNode { // one address
				n = &yaml.Node{Kind: yaml.SequenceNode, Line: n.Line, Column: n.Column, Content: []*yaml.Node{n}}
			}
			return y.List(n, func(_ int, n *yaml.Node) error {
				to.Email = append(to.Email, "")
				last := func(n *dag.Notify) *string { return &n.Email[len(n.Email)-1] }
				return yamlfile.TextField(y, last, address)(to, n)
			})
		},
	}, to)
	if err == nil {
		err = fault.At(yamlfile.PositionOf(n), to.Check())
	}
	return err
}
