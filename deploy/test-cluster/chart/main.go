// Renders a chart of Helm as `helm template` does, with Helm's own engine, and prints its manifests as JSON, one in a line.
//
//	chart DIRECTORY RELEASE NAMESPACE [KEY=VALUE]...
//
// For tests; a module of its own, so that the server programs beside it need nothing of Helm's.
package main

import (
	"fmt"
	"os"
	"path"
	"sort"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"
	"helm.sh/helm/v3/pkg/strvals"
	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: chart DIRECTORY RELEASE NAMESPACE [KEY=VALUE]...")
		os.Exit(2)
	}
	if err := render(os.Args[1], os.Args[2], os.Args[3], os.Args[4:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func render(directory, release, namespace string, settings []string) error {
	chart, err := loader.LoadDir(directory)
	if err != nil {
		return err
	}
	if err := chart.Validate(); err != nil {
		return err
	}
	values := map[string]interface{}{}
	for _, setting := range settings {
		if err := strvals.ParseInto(setting, values); err != nil {
			return err
		}
	}
	options := chartutil.ReleaseOptions{Name: release, Namespace: namespace, Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(chart, values, options, nil)
	if err != nil {
		return err
	}
	rendered, err := engine.Engine{Strict: true}.Render(chart, all)
	if err != nil {
		return err
	}
	names := make([]string, 0, len(rendered))
	for name := range rendered {
		if path.Ext(name) == ".yaml" && strings.TrimSpace(rendered[name]) != "" {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	for _, name := range names {
		documents := releaseutil.SplitManifests(rendered[name])
		for at := range len(documents) {
			json, err := yaml.YAMLToJSON([]byte(documents[fmt.Sprintf("manifest-%d", at)]))
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			fmt.Printf("%s\n", json)
		}
	}
	return nil
}
