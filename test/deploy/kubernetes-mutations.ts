// Mistakes that people make in manifests, each with the rule that must find it.

import type { KubernetesObject } from '../support/kustomize.ts'

export interface Mutation {
  readonly rule: string
  readonly what: string
  /** production, where it is not said. */
  readonly overlay?: 'local' | 'production'
  readonly mutate: (objects: KubernetesObject[]) => void
  readonly mention: RegExp
}

/** A member that is looked for by its path: `spec.template.spec.containers.0.image`. */
function place(object: KubernetesObject, path: string): { parent: Record<string, unknown>; key: string } {
  const keys = path.split('.')
  const key = keys.pop() ?? ''
  let parent = object as Record<string, unknown>
  for (const each of keys) {
    parent[each] ??= {}
    parent = parent[each] as Record<string, unknown>
  }
  return { parent, key }
}

/** Objects by kind and name, where the name may carry the hash of a generated one. */
function find(objects: readonly KubernetesObject[], title: string): KubernetesObject {
  const [kind, name] = title.split(' ')
  const found = objects.find((object) => object.kind === kind && object.metadata.name.startsWith(name))
  if (found === undefined) throw new Error(`there is no ${title} to change`)
  return found
}

/** undefined: takes the member away. */
function set(title: string, path: string, value?: unknown): Mutation['mutate'] {
  return (objects) => {
    const { parent, key } = place(find(objects, title), path)
    if (value === undefined) delete parent[key]
    else parent[key] = value
  }
}

/** In the configuration of a server. */
function write(map: 'nats' | 'redis', found: string, by: string): Mutation['mutate'] {
  return (objects) => {
    const data = find(objects, `ConfigMap ${map}-config`)['data'] as Record<string, string>
    data[`${map}.conf`] = data[`${map}.conf`].replace(found, by)
  }
}

function remove(title: string): Mutation['mutate'] {
  return (objects) => void objects.splice(objects.indexOf(find(objects, title)), 1)
}

const SETTINGS = 'ConfigMap sluice-settings'
const SLUICE = 'Deployment sluice'
const POD = 'spec.template.spec'
const CONTAINER = `${POD}.containers.0`
const CLAIM = 'spec.volumeClaimTemplates.0.spec.resources.requests.storage'
const SELECTORS = 'selectors find the pods that they are meant for'
const PORTS = 'ports that are named are there'
const REFERENCES = 'what is referred to is there, or the operator is told to make it'
const TRAFFIC = 'traffic is let through on both sides, and the admin port is not open to all'
const IMAGES = 'images have a version, and sluice its own'
const SECURITY = 'every pod meets the restricted standard, and the namespace enforces it'
const AMBIENT = 'no pod is told of Services, or given a token'
const NAMESPACE = 'everything is in one namespace'
const PASSWORDS = 'no password stands here'
const KEPT = 'no list is empty, which the API server would forget'
const SOUND = 'the settings are known, sound, and those of the ports'
const STORES = 'the stores that the settings name are there, with room for as many copies'
const ENDING = 'a pod is given longer to end than its drain takes'
const AVAILABLE = 'there is always a node, and the autoscaler alone counts them'
const RESOURCES = 'memory is what the settings may use, and no quota stops the event loop'
const NATS = "NATS's configuration is that of its pod"
const REDIS = "Redis's configuration is that of its pod"
const OTHER = { 'app.kubernetes.io/name': 'sluce' }

type Row = readonly [rule: string, what: string, mutate: Mutation['mutate'], mention: RegExp, overlay?: 'local']

const ROWS: readonly Row[] = [
  [SELECTORS, 'a Service', set('Service sluice', 'spec.selector', OTHER), /Service sluice: .* no pod/],
  [SELECTORS, 'a policy', set('NetworkPolicy sluice', 'spec.podSelector.matchLabels', OTHER), /NetworkPolicy sluice/],
  [
    SELECTORS,
    'a budget',
    set('PodDisruptionBudget nats', 'spec.selector.matchLabels', OTHER),
    /PodDisruptionBudget nats/,
  ],
  [SELECTORS, 'the labels of the pods', set(SLUICE, 'spec.template.metadata.labels', OTHER), /a selector of its own/],
  [
    SELECTORS,
    'a spread',
    set(SLUICE, `${POD}.topologySpreadConstraints.1.labelSelector.matchLabels`, OTHER),
    /a selector of its own/,
  ],
  [
    SELECTORS,
    'an anti-affinity',
    set(
      'StatefulSet nats',
      `${POD}.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution.0.labelSelector.matchLabels`,
      OTHER,
    ),
    /StatefulSet nats: a selector of its own/,
  ],
  [PORTS, 'of a Service', set('Service sluice', 'spec.ports.0.targetPort', 'http'), /has no port http/],
  [PORTS, 'of a probe', set(SLUICE, `${CONTAINER}.livenessProbe.httpGet.port`, 8081), /asks for port 8081/],
  [PORTS, 'of a container', set(SLUICE, `${CONTAINER}.ports.1.name`, 'metrics'), /a probe asks for port admin/],
  [PORTS, 'of a policy', set('NetworkPolicy sluice', 'spec.ingress.0.ports.0.port', 'http'), /has port http/],
  [PORTS, 'of a policy for others', set('NetworkPolicy sluice', 'spec.egress.1.ports.0.port', 4223), /has port 4223/],
  [REFERENCES, 'the settings', remove(SETTINGS), /no ConfigMap sluice-settings/],
  [REFERENCES, "NATS's configuration", remove('ConfigMap nats-config'), /no ConfigMap nats-config/],
  [REFERENCES, 'the account', set(SLUICE, `${POD}.serviceAccountName`, 'sluce'), /no ServiceAccount sluce/],
  [REFERENCES, "a StatefulSet's Service", set('StatefulSet nats', 'spec.serviceName', 'nat'), /no Service nat$/],
  [REFERENCES, 'a volume', set('StatefulSet nats', `${POD}.volumes`, []), /no volume config/],
  [
    REFERENCES,
    'a Secret that nobody is told of',
    set(SLUICE, `${CONTAINER}.env.0.valueFrom.secretKeyRef.name`, 'redis'),
    /Secret redis with REDIS_URL/,
  ],
  [
    REFERENCES,
    'a key of one',
    set(SLUICE, `${CONTAINER}.env.0.valueFrom.secretKeyRef.key`, 'URL'),
    /Secret sluice-connections with URL/,
  ],
  [TRAFFIC, 'a policy for one way', set('NetworkPolicy sluice', 'spec.policyTypes', ['Egress']), /guards its Ingress/],
  [TRAFFIC, 'the admin port for all', set('NetworkPolicy sluice', 'spec.ingress.1.from'), /lets everybody in/],
  [
    TRAFFIC,
    'NATS lets others in only',
    set('NetworkPolicy nats', 'spec.ingress.0.from', []),
    /StatefulSet nats does not/,
  ],
  [
    TRAFFIC,
    'its servers are kept apart',
    set('NetworkPolicy nats-cluster', 'spec.ingress', []),
    /nats-cluster: .* does/,
  ],
  [TRAFFIC, 'Redis has no policy', remove('NetworkPolicy redis'), /no policy guards its Ingress/, 'local'],
  [IMAGES, 'the latest', set(SLUICE, `${CONTAINER}.image`, 'sluice:latest'), /has no full version/],
  [IMAGES, 'none', set('StatefulSet nats', `${CONTAINER}.image`, 'nats'), /has no full version/],
  [IMAGES, 'half a version', set('StatefulSet nats', `${CONTAINER}.image`, 'nats:2.11'), /has no full version/],
  [IMAGES, "another's", set(SLUICE, `${CONTAINER}.image`, 'sluice:0.0.9'), /is not the package's/],
  [SECURITY, 'enforced no more', set('Namespace sluice', 'metadata.labels', {}), /does not enforce/],
  [AMBIENT, 'links', set(SLUICE, `${POD}.enableServiceLinks`), /variables named after Services/],
  [AMBIENT, 'a token', set('StatefulSet nats', `${POD}.automountServiceAccountToken`), /has a token/],
  [NAMESPACE, 'another', set('Service nats', 'metadata.namespace', 'default'), /Service nats: is not in sluice/],
  [
    PASSWORDS,
    'in a URL',
    set(SETTINGS, 'data.REDIS_URL', 'redis://u:hunter2@redis:6379'),
    /ConfigMap sluice-settings.*: holds/,
  ],
  [PASSWORDS, 'in a Secret', (objects) => void (find(objects, 'Service nats').kind = 'Secret'), /Secret nats: holds/],
  [KEPT, 'of rules', set('NetworkPolicy nats', 'spec.egress', []), /NetworkPolicy nats: \/spec\/egress is empty/],
  [SOUND, 'a name', set(SETTINGS, 'data.SLUICE_RING_MBS', '64'), /SLUICE_RING_MBS: no such setting/],
  [SOUND, 'a value', set(SETTINGS, 'data.SLUICE_RING_MB', 'much'), /SLUICE_RING_MB: must be/],
  [SOUND, 'a port', set(SETTINGS, 'data.PORT', '8081'), /listens on 8081/],
  [SOUND, 'an address', set(SETTINGS, 'data.SLUICE_ADMIN_HOST', '127.0.0.1'), /nobody reaches/],
  [SOUND, 'no number of threads', set(SETTINGS, 'data.SLUICE_PARSERS'), /a thread for each core/],
  [SOUND, 'no URL', set(SLUICE, `${CONTAINER}.env`), /would write to its disk/],
  [STORES, 'too many copies', set(SETTINGS, 'data.SLUICE_STREAM_REPLICAS', '5'), /5 replicas of the stream/],
  [STORES, 'too few servers', set('StatefulSet nats', 'spec.replicas', 1), /nothing here answers at nats-1/],
  [STORES, 'a host', set(SETTINGS, 'data.REDIS_URL', 'redis://reds:6379'), /answers at reds:6379/, 'local'],
  [STORES, 'a port', set(SETTINGS, 'data.NATS_URL', 'nats://nats:4223'), /answers at nats:4223/, 'local'],
  [ENDING, 'a short grace', set(SLUICE, `${POD}.terminationGracePeriodSeconds`, 31), /is killed after 31000 ms/],
  [ENDING, 'none said', set(SLUICE, `${POD}.terminationGracePeriodSeconds`), /is killed after 30000 ms/],
  [ENDING, 'a long drain', set(SETTINGS, 'data.SLUICE_SHUTDOWN_SECONDS', '60'), /drain of 60000 ms/],
  [ENDING, 'no delay', set(SETTINGS, 'data.SLUICE_DRAIN_DELAY_SECONDS', '0'), /refuses connections/],
  [AVAILABLE, 'one node', set('HorizontalPodAutoscaler sluice', 'spec.minReplicas', 1), /may leave one node/],
  [
    AVAILABLE,
    'nothing scaled',
    set('HorizontalPodAutoscaler sluice', 'spec.scaleTargetRef.name', 'x'),
    /no Deployment x/,
  ],
  [AVAILABLE, 'no room', set('HorizontalPodAutoscaler sluice', 'spec.maxReplicas', 3), /never add a node/],
  [AVAILABLE, 'counted twice', set(SLUICE, 'spec.replicas', 3), /every apply sets back/],
  [AVAILABLE, 'no budget', remove('PodDisruptionBudget nats'), /StatefulSet nats: no budget/],
  [AVAILABLE, 'a budget of none', set('PodDisruptionBudget sluice', 'spec.maxUnavailable', 0), /lets 0 of 3/],
  [AVAILABLE, 'of a majority', set('PodDisruptionBudget nats', 'spec.maxUnavailable', 2), /lets 2 of 3/],
  [
    AVAILABLE,
    'a spread that is required',
    set(SLUICE, `${POD}.topologySpreadConstraints.1.whenUnsatisfiable`, 'DoNotSchedule'),
    /wait while a machine is full/,
  ],
  [AVAILABLE, 'no spread', set(SLUICE, `${POD}.topologySpreadConstraints`), /may share a machine/],
  [AVAILABLE, 'a rough rollout', set(SLUICE, 'spec.strategy.rollingUpdate.maxUnavailable', 1), /takes capacity away/],
  [RESOURCES, 'a larger ring', set(SETTINGS, 'data.SLUICE_RING_MB', '512'), /may use \d+ MiB/],
  [RESOURCES, 'more keys', set(SETTINGS, 'data.SLUICE_MAX_KEYS', '20000000'), /may use \d+ MiB/],
  [RESOURCES, 'no limit', set('StatefulSet nats', `${CONTAINER}.resources.limits`), /take all memory/],
  [RESOURCES, 'no request', set(SLUICE, `${CONTAINER}.resources.requests`), /requests nothing/],
  [RESOURCES, 'a quota', set(SLUICE, `${CONTAINER}.resources.limits.cpu`, '2'), /a quota/],
  [NATS, 'a port', write('nats', 'port: 4222', 'port: 4223'), /listens on 4223/],
  [NATS, 'a port of the pod', set('StatefulSet nats', `${CONTAINER}.ports.0.containerPort`, 6223), /its ports are/],
  [NATS, 'a full disk', write('nats', '90GB', '110GB'), /more than its volume/],
  [NATS, 'a small volume', set('StatefulSet nats', CLAIM, '50Gi'), /more than its volume/],
  [NATS, 'small messages', write('nats', 'max_payload: 1MB', 'max_payload: 512KB'), /refuses the largest record/],
  [NATS, 'memory', set('StatefulSet nats', `${CONTAINER}.resources.limits.memory`, '1Gi'), /more memory than/],
  [NATS, 'a folder', write('nats', 'store_dir: "/data"', 'store_dir: "/jetstream"'), /outside of its volumes/],
  [NATS, 'a variable', write('nats', '$POD_NAME', '$HOST_NAME'), /HOST_NAME is not in/],
  [NATS, 'the pid', write('nats', 'nats/nats.pid', 'nats/pid'), /preStop does not find it/],
  [NATS, 'a short grace', set('StatefulSet nats', `${POD}.terminationGracePeriodSeconds`, 30), /is killed before/],
  [REDIS, 'a port', write('redis', 'port 6379', 'port 6380'), /listens on 6380/, 'local'],
  [REDIS, 'a folder', write('redis', 'dir /data', 'dir /var'), /outside of its volumes/, 'local'],
  [REDIS, 'memory', write('redis', 'maxmemory 128mb', 'maxmemory 300mb'), /more memory than/, 'local'],
  [REDIS, 'eviction', write('redis', 'noeviction', 'allkeys-lru'), /throws counters away/, 'local'],
  [REDIS, 'no log', write('redis', 'appendonly yes', 'appendonly no'), /forgets app records/, 'local'],
  [RESOURCES, 'two cores', set(SLUICE, `${CONTAINER}.resources.requests.cpu`, '2'), /more than its front end/],
]

/** A pod that breaks one rule of the restricted standard, by the name of that rule. */
const UNSAFE: readonly (readonly [rule: string, path: string, value?: unknown])[] = [
  ['no host process', 'securityContext.windowsOptions.hostProcess', true],
  ['no namespace of the host', 'hostNetwork', true],
  ['no namespace of the host', 'hostPID', true],
  ['no namespace of the host', 'hostIPC', true],
  ['not privileged', 'containers.0.securityContext.privileged', true],
  ['no capability but NET_BIND_SERVICE', 'containers.0.securityContext.capabilities.add', ['SYS_PTRACE']],
  ['no capability but NET_BIND_SERVICE', 'containers.0.securityContext.capabilities.drop', []],
  ['volumes of harmless kinds', 'volumes', [{ name: 'host', hostPath: { path: '/' } }]],
  ['no port of the host', 'containers.0.ports.0.hostPort', 8080],
  ['AppArmor as it is', 'securityContext.appArmorProfile.type', 'Unconfined'],
  ['SELinux of containers', 'securityContext.seLinuxOptions.type', 'spc_t'],
  ['SELinux of containers', 'securityContext.seLinuxOptions.user', 'system_u'],
  ['a masked proc', 'containers.0.securityContext.procMount', 'Unmasked'],
  ['safe sysctls', 'securityContext.sysctls', [{ name: 'kernel.msgmax', value: '1' }]],
  ['probes of this pod alone', 'containers.0.livenessProbe.httpGet.host', '169.254.169.254'],
  ['no more privileges than at first', 'containers.0.securityContext.allowPrivilegeEscalation'],
  ['not root', 'securityContext.runAsNonRoot'],
  ['not root', 'containers.0.securityContext.runAsNonRoot', false],
  ["not root's number", 'securityContext.runAsUser', 0],
  ["not root's number", 'containers.0.securityContext.runAsUser', 0],
  ['a filter of system calls', 'securityContext.seccompProfile'],
  ['a filter of system calls', 'containers.0.securityContext.seccompProfile', { type: 'Unconfined' }],
  ['the root file system', 'containers.0.securityContext.readOnlyRootFilesystem', false],
]

export const MUTATIONS: readonly Mutation[] = [
  ...ROWS.map(([rule, what, mutate, mention, overlay = 'production']) => ({ rule, what, mutate, mention, overlay })),
  ...UNSAFE.map(([rule, path, value]) => ({
    rule: SECURITY,
    what: `${path} ${JSON.stringify(value) ?? 'unset'}`,
    mutate: set(SLUICE, `${POD}.${path}`, value),
    mention: new RegExp(`Deployment sluice: ${rule}`),
  })),
]
