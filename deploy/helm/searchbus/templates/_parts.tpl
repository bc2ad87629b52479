{{/* Labels of every object. Alerts and monitors select by the first one. */}}
{{- define "labels" -}}
app.kubernetes.io/part-of: searchbus
{{ include "origin" . }}
{{- end }}
{{- define "origin" -}}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* The image of a service: dict "root" $ "name" NAME. */}}
{{- define "image" -}}
{{- $image := .root.Values.image -}}
{{- $digest := index $image.digests .name -}}
{{ $image.repository }}/{{ .name }}{{ if $digest }}@{{ $digest }}{{ else }}:{{ $image.tag | default .root.Chart.AppVersion }}{{ end }}
{{- end }}

{{/* What restricted Pod Security asks of a container. */}}
{{- define "restricted" -}}
allowPrivilegeEscalation: false
privileged: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* The first segments of all paths that clients use; /, probes and metrics are not among them. */}}
{{- define "paths" -}}
- {path: /mcp, type: Prefix}
- {path: /api, type: Prefix}
- {path: /openapi.json, type: Exact}
- {path: /docs, type: Prefix}
- {path: /console, type: Prefix}
- {path: /searxng, type: Prefix}
- {path: /tavily, type: Prefix}
- {path: /read, type: Prefix}
- {path: /documents, type: Prefix}
- {path: /.well-known/ai-catalog.json, type: Exact}
- {path: /.well-known/oauth-protected-resource, type: Prefix}
{{- end }}

{{/* Where browsers sign in to attached servers. */}}
{{- define "sign-in" -}}
- {path: /sign-in, type: Prefix}
{{- end }}

{{/* The settings of a service; `all` is for every one. */}}
{{- define "settings" -}}
{{- $settings := deepCopy (index .root.Values.settings .name | default dict) -}}
{{- if and (eq .name "all") (include "authority" (dict "root" .root "name" "nats")) -}}
{{- $_ := set $settings "SEARCHBUS_NATS_URL" (replace "nats://" "tls://" $settings.SEARCHBUS_NATS_URL) -}}
{{- $_ := set $settings "SEARCHBUS_NATS_CA_FILE" "/etc/searchbus-tls/nats/ca.crt" -}}
{{- if .root.Values.tls.nats.clientCertificates -}}
{{- $_ := set $settings "SEARCHBUS_NATS_CERT_FILE" "/run/secrets/searchbus/client.crt" -}}
{{- $_ := set $settings "SEARCHBUS_NATS_KEY_FILE" "/run/secrets/searchbus/client.key" -}}
{{- end -}}
{{- else if and (eq .name "retrieval") .root.Values.documents.enabled -}}
{{- $_ := set $settings "SEARCHBUS_QDRANT_URL" "" -}}
{{- else if and (eq .name "retrieval") (include "authority" (dict "root" .root "name" "qdrant")) -}}
{{- $_ := set $settings "SEARCHBUS_QDRANT_URL" (replace "http://" "https://" $settings.SEARCHBUS_QDRANT_URL) -}}
{{- $_ := set $settings "SEARCHBUS_QDRANT_CA_FILE" "/etc/searchbus-tls/qdrant/ca.crt" -}}
{{- end -}}
{{- if and (eq .name "edge") (not (hasKey $settings "SEARCHBUS_ALLOWED_HOSTS")) -}}
{{- $hosts := .root.Values.httpRoute.enabled | ternary .root.Values.httpRoute.hostnames list -}}
{{- if .root.Values.ingress.enabled }}{{ $hosts = prepend $hosts .root.Values.ingress.host }}{{ end -}}
{{- if $hosts }}{{ $_ := set $settings "SEARCHBUS_ALLOWED_HOSTS" ($hosts | uniq | toJson) }}{{ end -}}
{{- end -}}
{{- if $settings }}{{ toYaml $settings }}{{ end -}}
{{- end }}

{{/* Egress to the DNS of the cluster. */}}
{{- define "dns" -}}
- to: {{- toYaml .Values.networkPolicy.dns | nindent 4 }}
  ports:
    - {port: 53, protocol: UDP}
    - {port: 53, protocol: TCP}
    - {port: 5353, protocol: UDP}
    - {port: 5353, protocol: TCP}
{{- end }}
