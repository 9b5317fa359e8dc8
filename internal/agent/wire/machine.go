package wire

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// Proof is a machine's identity as attested by its cloud, in the cloud's own format: on AWS the instance identity
// document, signed as PKCS7 with RSA-2048; on Google an identity token for the broker's address; on Azure the attested
// document.
type Proof struct {
	Cloud    string `json:"cloud"`    // aws, gcp, azure
	Document string `json:"document"` // as returned by the metadata service
}

// MaxProof is the maximum size of a proof's document, in bytes.
const MaxProof = 16 << 10

// Machine is the content of a proof. A field is empty if the cloud does not attest it.
type Machine struct {
	Cloud   string
	Account string // account, project or subscription
	Region  string
	ID      string // the cloud's ID of the machine
	// Fault is the reason why a proof is not valid. The other fields are then empty.
	Fault string
}

// AzureNonce returns the nonce that Azure signs for an agent, derived from the nonce of the agent's hello. It has ten
// digits, the only form that Azure documents ("Azure Instance Metadata Service", "Attested data").
func AzureNonce(nonce string) string {
	sum := sha256.Sum256([]byte(nonce))
	return fmt.Sprintf("%010d", binary.BigEndian.Uint64(sum[:])%1e10)
}
