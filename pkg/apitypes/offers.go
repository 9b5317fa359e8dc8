package apitypes

// Offer names what to buy and where.
type Offer struct {
	Cloud        string `json:"cloud"`
	Region       string `json:"region"`
	Zone         string `json:"zone,omitempty"` // empty where the cloud sells by region
	InstanceType string `json:"instanceType"`
	// attached to the host where the cloud composes them (GCP); else informative
	Accelerator string  `json:"accelerator,omitempty"`
	AccelCount  float64 `json:"acceleratorCount,omitempty"`
	Spot        bool    `json:"spot"`
	USDPerHour  float64 `json:"usdPerHour"` // the price the plan counts with, for one machine
	// Reservation is the cloud's ID of capacity that the account has already, or a name that settings gave it, where
	// the machines are to run on that; Reserved is how many may at once.
	Reservation string `json:"reservation,omitempty"`
	Reserved    int    `json:"reserved,omitempty"`
	// Has and Takes are set, in the place of Reserved, where Reservation is a commitment that machines of several types
	// share: how much of it may be in use at once, and how much one machine takes.
	Has   Amount `json:"has,omitzero"`
	Takes Amount `json:"takes,omitzero"`
}

// Room is how much there may be in use at once of the capacity that the offer is on, and how much of it so many
// machines take.
func (o *Offer) Room(machines int) (has, takes Amount) {
	if o.Takes.IsZero() {
		return Amount{Machines: int64(o.Reserved)}, Amount{Machines: int64(machines)}
	}
	return o.Has, o.Takes.Times(machines)
}
