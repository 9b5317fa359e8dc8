package apitypes

import "time"

// BlockList is a list of blocked places.
type BlockList struct {
	Now    time.Time `json:"now" doc:"The broker's clock"`
	Blocks []Block   `json:"blocks" nullable:"false" doc:"What is not tried; an empty field is every value"`
}

// Block is a location not to try until a time. Empty fields match everything.
type Block struct {
	Cloud        string `json:"cloud"`
	Region       string `json:"region,omitempty"`
	Zone         string `json:"zone,omitempty"`
	InstanceType string `json:"instanceType,omitempty"`
	Family       string `json:"family,omitempty"` // of machine types, for quota
	Market       string `json:"market,omitempty"`
	// Reservation is one that cannot be used, and nothing else is blocked; see apitypes.Offer.
	Reservation string    `json:"reservation,omitempty"`
	Kind        string    `json:"kind"` // of the failure: a cloud.Kind
	Reason      string    `json:"reason"`
	At          time.Time `json:"at"`
	Until       time.Time `json:"until"`
	// Count is how often in a row it was blocked; the time doubles with it.
	Count int `json:"count"`
}
