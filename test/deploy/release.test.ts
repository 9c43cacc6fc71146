// The workflows of a change and of a release: what they run is there, what they use is pinned, and what they may do is little.
// GitHub alone can run them.

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { pinned, pinnedCompose } from '../../tools/pin-images.js'
import { releaseMistakes } from '../../tools/release-check.js'

const ROOT = resolve(import.meta.dirname, '../..')
const FOLDER = join(ROOT, '.github/workflows')
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8')

interface Step {
  readonly uses?: string
  readonly run?: string
  readonly env?: Readonly<Record<string, string>>
  readonly 'working-directory'?: string
}

interface Job {
  readonly uses?: string
  readonly needs?: string | string[]
  readonly 'timeout-minutes'?: number
  readonly permissions?: Readonly<Record<string, string>>
  readonly strategy?: { readonly matrix: { readonly node: readonly string[] } }
  readonly container?: string | object
  readonly steps?: readonly Step[]
}

interface Workflow {
  readonly on: Readonly<Record<string, unknown>>
  readonly permissions: Readonly<Record<string, string>>
  readonly jobs: Readonly<Record<string, Job>>
}

const files = readdirSync(FOLDER)
const workflows = files.map((name) => {
  const text = read(`.github/workflows/${name}`)
  return { name, text, workflow: parse(text) as Workflow }
})
const workflowOf = (name: string): Workflow => {
  const found = workflows.find((each) => each.name === name)
  if (found === undefined) throw new Error(`there is no ${name}`)
  return found.workflow
}
const scripts = (folder: string): Record<string, string> =>
  (JSON.parse(read(join(folder, 'package.json'))) as { scripts: Record<string, string> }).scripts

/** What of npm itself a line calls. */
const NPM_COMMANDS = new Set(['ci', 'pack', 'pkg', 'publish', 'sbom'])

/** What a line calls that is not there. */
function missing(line: string, folder: string): string | null {
  const [program, first = '', second = ''] = line.split(' ')
  if (program === 'npm') {
    if (first === 'run') return second in scripts(folder) ? null : `npm run ${second}`
    return NPM_COMMANDS.has(first) ? null : `npm ${first}`
  }
  if (program === 'node' || program.includes('/')) {
    const file = program === 'node' ? first : program
    return existsSync(join(ROOT, file)) ? null : file
  }
  return ['docker', 'echo', 'git', 'tar', 'gh', 'cosign'].includes(program) ? null : program
}

it('there is a workflow for each change, one for a release and one for the site', () => {
  expect(files.toSorted()).toEqual(['ci.yaml', 'release.yaml', 'site.yaml'])
  expect(Object.keys(workflowOf('ci.yaml').on)).toEqual(['push', 'pull_request', 'workflow_call'])
  expect(workflowOf('release.yaml').on).toEqual({ push: { tags: ['v*.*.*'] } })
})

/** What the jobs of a workflow may write. */
const RIGHTS: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>> = {
  'release.yaml': {
    image: ['packages', 'id-token', 'attestations'],
    manifests: ['packages', 'id-token'],
    'to-npm': ['id-token'],
    publish: ['contents'],
  },
  'site.yaml': { publish: ['pages', 'id-token'] },
}

describe.each(workflows)('$name', ({ name, text, workflow }) => {
  const jobs = Object.entries(workflow.jobs)
  const steps = jobs.flatMap(([, job]) => job.steps ?? [])

  it('runs only scripts and files that are there', () => {
    const lines = steps.filter(({ run }) => run !== undefined)
    expect(lines.length).toBeGreaterThan(0)
    const wrong = lines.map((step) => missing(step.run ?? '', step['working-directory'] ?? '.'))
    expect(wrong.filter((each) => each !== null)).toEqual([])
    for (const [, { uses }] of jobs) if (uses !== undefined) expect(existsSync(join(ROOT, uses)), uses).toBe(true)
  })

  it('pins each action to a commit, and names its version', () => {
    const used = [...text.matchAll(/uses: ([^.\s]\S*)(.*)$/gm)]
    expect(used).toHaveLength(steps.filter(({ uses }) => uses !== undefined).length)
    for (const [, action, comment] of used) {
      expect(action).toMatch(/^[\w-]+\/[\w-]+@[0-9a-f]{40}$/)
      expect(comment, action).toMatch(/^ # v\d+\.\d+\.\d+$/)
    }
  })

  it('may read the contents, and holds no secret', () => {
    expect(workflow.permissions).toEqual({ contents: 'read' })
    expect(text).not.toMatch(/secrets\.|pull_request_target/)
    const granted = jobs.flatMap(([job, { permissions }]) =>
      Object.entries(permissions ?? {}).map(([what, right]) => [job, what, right]),
    )
    const rights = RIGHTS[name] ?? {}
    const written = granted.filter(([, , right]) => right !== 'read').map(([job, what]) => `${job} ${what}`)
    const allowed = Object.entries(rights).flatMap(([job, what]) => what.map((each) => `${job} ${each}`))
    expect(written).toEqual(allowed)
  })

  it('puts nothing that a stranger chooses into a shell, and ends each job in time', () => {
    for (const { run = '' } of steps) expect(run).not.toContain('${{ ')
    for (const [job, { uses, 'timeout-minutes': minutes }] of jobs) {
      if (uses === undefined) expect(minutes, job).toBeGreaterThan(0)
    }
  })
})

it('each Node with a binary of the HTTP engine is checked whole, and others by the table of Nodes', () => {
  const { check } = workflowOf('ci.yaml').jobs
  expect(check.strategy?.matrix.node.map((version) => Number.parseInt(version, 10))).toEqual([20, 22, 24, 25])
  const { engines } = JSON.parse(read('package.json')) as { engines: { node: string } }
  expect(engines.node).toBe('20.12 - 20 || >=22')
})

describe('what CI and the image fetch is of one version', () => {
  const folders = ['.ci', 'tools', 'deploy/image']
  const scripts = folders
    .flatMap((folder) => readdirSync(join(ROOT, folder)).map((name) => `${folder}/${name}`))
    .filter((path) => /\.sh$|^\.ci\/run$/.test(path))
    .map((path) => ({ path, text: read(path) }))
  const versions = new Map(
    [...read('tools/versions.sh').matchAll(/^(\w+)=(.*)$/gm)].map(([, name, version]) => [name, version]),
  )

  it('each package of Go and npm that a script fetches has the version of tools/versions.sh', () => {
    for (const [name, version] of versions) expect(version, name).toMatch(/^v?\d+\.\d+\.\d+$/)
    const fetched = scripts.flatMap(({ path, text }) =>
      text
        .split('\n')
        .filter((line) => /\b(go install|npm pack|unpack) .*[\w")]@|@latest/.test(line))
        .map((line) => ({ path, line: line.trim(), name: /@"?\$(\w+)/.exec(line)?.[1] ?? '' })),
    )
    expect(fetched.filter(({ name }) => !versions.has(name))).toEqual([])
    // Two programs of Go by two scripts and one by one of them, and Node twice and npm.
    expect(fetched.map(({ name }) => name).toSorted()).toEqual(
      ['FUNC_E', 'K6', 'K6', 'NATS', 'NATS', 'NODE24', 'NODE24', 'NPM'].toSorted(),
    )
    const users = scripts.filter(({ text }) => /\$\{?(K6|NATS|FUNC_E|ENVOY|KUBECTL|NODE24|NPM)\b/.test(text))
    for (const { path, text } of users) expect(text, path).toMatch(/^source .*versions\.sh"?$/m)
  })

  it('each image names its version, and the base of the published one its digest', () => {
    const texts = [...files.map((name) => `.github/workflows/${name}`), 'Dockerfile', 'deploy/compose.yaml'].map(read)
    const images = texts.flatMap((text) =>
      [...text.matchAll(/^ *(?:(?:- )?image: |container: |ARG BASE=)(?!sluice:|\$\{\{ steps)(\S.*)$/gm)].map(
        ([, image]) => image,
      ),
    )
    expect(images.length).toBeGreaterThan(8)
    const ofMatrix = workflowOf('ci.yaml').jobs['check'].strategy?.matrix.node ?? []
    for (const version of ofMatrix) expect(version).toMatch(/^\d+\.\d+\.\d+$/)
    for (const image of images) {
      expect(image.replace('${{ matrix.node }}', ofMatrix[0])).toMatch(
        /^[\w./-]+(:v?\d+\.\d+\.\d+(-[\w.-]+)?)(@sha256:[0-9a-f]{64})?$/,
      )
    }
    for (const { text } of workflows) {
      for (const [, version] of text.matchAll(/(?:go|node)-version: (.*)/g)) expect(version).toMatch(/^\d+\.\d+\.\d+$/)
    }
    const manifests = ['base', 'overlays/local', 'overlays/production'].map((folder) =>
      read(`deploy/${folder}/kustomization.yaml`),
    )
    const tags = [...manifests.join('').matchAll(/newTag: (.*)/g)]
    expect(tags.length).toBeGreaterThan(3)
    for (const [, tag] of tags) expect(tag).toMatch(/^\d+\.\d+\.\d+(-[\w.-]+)?$/)
    const { NODE24 } = Object.fromEntries(versions)
    const node = new RegExp(`^node:${NODE24}-(bookworm|trixie)(-slim@sha256:[0-9a-f]{64})?$`)
    const ofNode = images.filter((image) => image.startsWith('node:24'))
    expect(ofNode.map((image) => image.replace(node, '$1') !== image)).toEqual(Array.from({ length: 5 }, () => true))
  })
})

describe('a release', () => {
  it('publishes an image only after all checks, for both architectures, with its parts and its origin', () => {
    const { jobs } = workflowOf('release.yaml')
    expect(jobs['image'].needs).toContain('ci')
    expect(jobs['npm'].needs).toBe('ci')
    const build = jobs['image'].steps?.find(({ uses }) => uses?.startsWith('docker/build-push-action'))
    expect(build).toMatchObject({
      with: { platforms: 'linux/amd64,linux/arm64', push: true, sbom: true, provenance: 'mode=max' },
    })
    const publishes = (job: string): unknown[] =>
      (jobs[job].steps ?? []).filter(({ run }) => run?.includes('npm publish'))
    expect(publishes('npm')).toMatchObject([{ run: 'npm publish --dry-run' }, { run: 'npm publish --dry-run' }])
    // Nothing goes to npm that is not named, and nothing before the image is there.
    // npm refuses a provenance of another repository than the manifest names.
    const repository = '"repository.url=git+$GITHUB_SERVER_URL/$GITHUB_REPOSITORY.git"'
    const run = `npm pkg set "name=$NAME" ${repository} && npm publish --provenance --access public`
    expect(jobs['to-npm'].needs).toContain('image')
    expect(publishes('to-npm')).toMatchObject([
      { if: "vars.NPM_PACKAGE != ''", run },
      { if: "vars.NPM_CLIENT != ''", run, 'working-directory': 'clients/typescript' },
    ])
  })

  it('is of main alone, signed by digest, and has every image of deploy/ by digest', () => {
    const { jobs } = workflowOf('release.yaml')
    const lines = (job: string): string[] => (jobs[job].steps ?? []).map(({ run = '', uses = '' }) => run + uses)
    expect(lines('version')).toContain('git merge-base --is-ancestor "$GITHUB_SHA" origin/main')
    const ofImage = lines('image').join('\n')
    expect(ofImage).toMatch(/build-push-action[^]*cosign sign --yes "\$IMAGE"[^]*attest-build-provenance/)
    expect(lines('publish').findIndex((line) => line.includes('pin-images.js'))).toBeLessThan(
      lines('publish').findIndex((line) => line.startsWith('tar ')),
    )
    expect(lines('npm')).toContain('npm ci --ignore-scripts')
    // What fails there leaves npm and the release as they are.
    for (const name of ['publish', 'to-npm']) expect(jobs[name].needs).toContain('manifests')
    expect(lines('manifests').findIndex((line) => line.includes('pin-images.js'))).toBeLessThan(
      lines('manifests').findIndex((line) => line.includes('push-manifests.sh')),
    )
  })

  it('puts a digest in the place of each tag of deploy/, and refuses where there is none', () => {
    const digest = (at: number): string => `sha256:${String(at).repeat(32)}${'ab'.repeat(16)}`
    for (const file of ['base', 'overlays/local', 'overlays/production']) {
      const text = read(`deploy/${file}/kustomization.yaml`)
      const names: string[] = []
      const done = pinned(text, (name) => `registry.test/${name}@${digest(names.push(name))}`)
      const { images } = parse(done) as { images: { name: string; newName: string; digest: string }[] }
      expect(images.map(({ name }) => name)).toEqual(
        (parse(text) as typeof images & { images: [] }).images.map(({ name }: { name: string }) => name),
      )
      expect(images.map((image) => image)).toEqual(
        names.map((name, at) => ({ name, newName: `registry.test/${name}`, digest: digest(at + 1) })),
      )
      expect(done).not.toContain('newTag')
      expect(() => pinned(text, (name) => `${name}:latest`)).toThrow('has no digest')
      expect(() => pinned(text, (name) => `${name}@sha256:${'0'.repeat(64)}`)).toThrow('has no digest')
    }
    const compose = read('deploy/compose.yaml')
    const done = pinnedCompose(compose, (name) => `registry.test/${name}@${digest(7)}`)
    expect(done.match(/^ +image: registry\.test\/\S+@sha256:\S+$/gm)).toHaveLength(6)
    expect(() => pinnedCompose(compose, (name) => `${name}:latest`)).toThrow('has no digest')
  })

  it('has one version in all its files', () => {
    const { version } = JSON.parse(read('package.json')) as { version: string }
    expect(releaseMistakes(`v${version}`)).toEqual([])
  })

  it('is refused under another tag, and where a file names another version', () => {
    const { version } = JSON.parse(read('package.json')) as { version: string }
    expect(releaseMistakes('v9.9.9')).toEqual([`the tag is v9.9.9, package.json has ${version}`])
    const stale = (path: string): string =>
      path === 'openapi.yaml' ? read(path).replace(/^ {2}version: .*$/m, '  version: 0.0.1') : read(path)
    expect(releaseMistakes(`v${version}`, stale)).toEqual([`openapi.yaml has 0.0.1, package.json has ${version}`])
    const client = 'clients/typescript/src/queue.ts'
    const earlier = (path: string): string =>
      path === client ? read(path).replace(/sluice-client\/[\d.]+/, 'sluice-client/0.2.0') : read(path)
    expect(releaseMistakes(`v${version}`, earlier)).toEqual([`${client} has 0.2.0, package.json has ${version}`])
    const unsupported = (path: string): string => (path === 'SECURITY.md' ? '| 0.1 | yes |' : read(path))
    expect(releaseMistakes(`v${version}`, unsupported)).toEqual([
      expect.stringMatching(/^SECURITY.md does not support /),
    ])
  })
})
