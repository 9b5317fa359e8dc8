package apitypes

// Offer names what to buy and where.
type Offer struct {
	Cloud        string `json:"cloud"`
	Region       string `json:"region"`
	Zone         string `json:"zone,omitempty"` // empty if the cloud sells by region
	InstanceType string `json:"instanceType"`
	// attached to the host if the cloud composes them (GCP); otherwise informative
	Accelerator string  `json:"accelerator,omitempty"`
	AccelCount  float64 `json:"acceleratorCount,omitempty"`
	Spot        bool    `json:"spot"`
	USDPerHour  float64 `json:"usdPerHour"` // the price that the plan assumes, for one machine
	// Reservation, if set, is the capacity that the account already has and that the machines are to use: the cloud's
	// ID or a name from the settings. Reserved is how many machines may run on it at once.
	Reservation string `json:"reservation,omitempty"`
	Reserved    int    `json:"reserved,omitempty"`
	// Has and Takes are set instead of Reserved if Reservation is a commitment that machines of several types share:
	// how much of it may be in use at once, and how much one machine takes.
	Has   Amount `json:"has,omitzero"`
	Takes Amount `json:"takes,omitzero"`
}

// Room returns how much of the offer's reserved capacity may be in use at once, and how much of it the given number of
// machines takes.
func (o *Offer) Room(machines int) (has, takes Amount) {
	if o.Takes.IsZero() {
		return Amount{Machines: int64(o.Reserved)}, Amount{Machines: int64(machines)}
	}
	return o.Has, o.Takes.Times(machines)
}
