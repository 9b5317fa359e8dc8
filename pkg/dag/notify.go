package dag

import (
	"net/url"
	"slices"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
)

// Notify lists who is notified when a job ends.
type Notify struct {
	// Webhook is the URL to which the event is posted as a CloudEvent.
	Webhook string `json:"webhook,omitempty"`
	// Command is a shell command of the broker's computer that gets the event on its standard input.
	Command string   `json:"command,omitempty"`
	Email   []string `json:"email,omitempty"` // addresses
}

// MaxAddresses is the maximum number of e-mail addresses that a job notifies.
const MaxAddresses = 10

// IsZero reports whether no one is notified.
func (n *Notify) IsZero() bool { return n.Webhook == "" && n.Command == "" && len(n.Email) == 0 }

// Check checks the URL, the command and the addresses.
func (n *Notify) Check() error {
	if len(n.Email) > MaxAddresses {
		return fault.Within("email", fault.New("has too many addresses", "use a mailing list"))
	}
	if err := fault.Within("webhook", ifSet(n.Webhook, CheckWebhook)); err != nil {
		return err
	}
	if err := fault.Within("command", ifSet(n.Command, CheckScript)); err != nil {
		return err
	}
	return eachChecked("email", n.Email, func(s *string) error { return CheckAddress(*s) })
}

// CheckWebhook checks the URL of a webhook.
func CheckWebhook(s string) error {
	if err := CheckText(s); err != nil {
		return err
	}
	u, err := url.Parse(s)
	if err != nil || u.Hostname() == "" || !slices.Contains([]string{"http", "https"}, u.Scheme) {
		return fault.New("is not the URL of a webhook", "such as https://example.org/hook")
	}
	return nil
}

// Address is the pattern of an e-mail address without a name: people@example.org.
const Address = `^[^\s@<>,;:"]+@[^\s@<>,;:"]+\.[^\s@<>,;:"]+$`

var validAddress = lazy(Address)

// CheckAddress checks an e-mail address.
func CheckAddress(s string) error {
	if len(s) > maxAddressBytes || !validAddress().MatchString(s) {
		return fault.New(fault.Quote(s)+" is not an e-mail address", "such as me@example.org")
	}
	return nil
}

const maxAddressBytes = 254 // RFC 5321, section 4.5.3.1.3, without the angle brackets
