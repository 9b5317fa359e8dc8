package deploy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Archs returns the architectures for which agents are built.
func Archs() []string { return []string{"amd64", "arm64"} }

// policyKey is the key at which sessions read their policy, as in infra/.
const policyKey = "policy/scheduling.yaml"

// PutPolicy puts the scheduling policy into the work bucket, where sessions find it within a minute.
func (t *Target) PutPolicy(ctx context.Context, bucket string, body []byte) error {
	if err := t.put(ctx, bucket, policyKey, body); err != nil {
		return err
	}
	t.report(Step{What: "upload", Name: "scheduling policy", Status: "done",
		Physical: "s3://" + bucket + "/" + policyKey})
	return nil
}

// UploadAgents uploads the agents' binaries in a folder of assets to the work bucket, each under its digest, and those
// of rclone if they were built. Machines launched before an upgrade still find theirs.
func (t *Target) UploadAgents(ctx context.Context, assets, bucket string) error {
	for _, arch := range Archs() {
		for name, what := range map[string]string{"tradewind-agent": "agent", "rclone": "rclone"} {
			path := filepath.Join(assets, "agent", arch, name)
			if err := t.uploadProgram(ctx, path, bucket, what+" for "+arch); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *Target) uploadProgram(ctx context.Context, path, bucket, what string) error {
	body, err := os.ReadFile(path) //nolint:gosec // the caller chooses the folder
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("deploy: agent: %w", err)
	}
	sum := sha256.Sum256(body)
	key := "agent/" + hex.EncodeToString(sum[:]) + "/" + filepath.Base(path)
	there, err := t.exists(ctx, bucket, key)
	if err != nil || there {
		return err
	}
	if err := t.put(ctx, bucket, key, body); err != nil {
		return err
	}
	t.report(Step{What: "upload", Name: what, Status: "done", Physical: "s3://" + bucket + "/" + key})
	return nil
}
