package dag

import (
	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// Notify lists the recipients that are notified when a job ends.
type Notify struct {
	// Webhook is the URL to which the event is posted as a CloudEvent.
	Webhook string `json:"webhook,omitempty"`
	// Command is a shell command of the broker's computer that gets the event on its standard input.
	Command string   `json:"command,omitempty"`
	Email   []string `json:"email,omitempty"` // addresses
}

// IsZero reports whether no one is notified.
func (n *Notify) IsZero() bool { return n.Webhook == "" && n.Command == "" && len(n.Email) == 0 }

// Check checks the URL, the command and the addresses.
func (n *Notify) Check() error {
	if len(n.Email) > jobtext.MaxAddresses {
		return fault.Within("email", fault.New("has too many addresses", "use a mailing list"))
	}
	if err := fault.Within("webhook", ifSet(n.Webhook, jobtext.CheckWebhook)); err != nil {
		return err
	}
	if err := fault.Within("command", ifSet(n.Command, jobtext.CheckScript)); err != nil {
		return err
	}
	return eachChecked("email", n.Email, func(s *string) error { return jobtext.CheckAddress(*s) })
}

// CheckAddress checks an e-mail address.
func CheckAddress(s string) error { return jobtext.CheckAddress(s) }
