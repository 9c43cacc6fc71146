// Reads what tests ask of a Dockerfile and a .dockerignore: instructions by stage, and which paths get to the builder.

export interface Instruction {
  readonly name: string
  /** `--from=build` as { from: 'build' }. */
  readonly flags: Readonly<Record<string, string>>
  /** What follows the flags, on one line. */
  readonly text: string
}

export interface Stage {
  readonly base: string
  readonly alias: string
  readonly instructions: readonly Instruction[]
}

export interface Dockerfile {
  /** Before the first FROM. */
  readonly args: Readonly<Record<string, string>>
  readonly stages: readonly Stage[]
}

const NAMES = new Set(
  'ADD ARG CMD COPY ENTRYPOINT ENV EXPOSE FROM HEALTHCHECK LABEL ONBUILD RUN SHELL STOPSIGNAL USER VOLUME WORKDIR'.split(
    ' ',
  ),
)

export function parseDockerfile(text: string): Dockerfile {
  const stages: (Stage & { instructions: Instruction[] })[] = []
  const args: Record<string, string> = {}
  for (const instruction of instructionsOf(text)) {
    if (instruction.name === 'FROM') {
      const parts = /^(\S+) AS (\S+)$/i.exec(instruction.text)
      if (parts === null) throw new Error(`a stage without a name: ${instruction.text}`)
      stages.push({ base: parts[1], alias: parts[2], instructions: [] })
    } else if (stages.length > 0) stages[stages.length - 1].instructions.push(instruction)
    else if (instruction.name === 'ARG') Object.assign(args, pairsOf(instruction))
    else throw new Error(`before the first FROM: ${instruction.name}`)
  }
  return { args, stages }
}

function instructionsOf(text: string): Instruction[] {
  // A comment may stand between the lines of one instruction.
  const lines = text.split('\n').filter((line) => !/^\s*(#|$)/.test(line))
  return lines
    .join('\n')
    .replace(/\\\n\s*/g, '')
    .split('\n')
    .map((line) => {
      const [, name, flagText, rest] = /^(\w+)\s+((?:--[\w-]+=\S+\s+)*)(.*)$/.exec(line) ?? []
      if (name === undefined || !NAMES.has(name)) throw new Error(`not an instruction: ${line}`)
      const flags = [...flagText.matchAll(/--([\w-]+)=(\S+)/g)].map(([, flag, value]) => [flag, value])
      return { name, flags: Object.fromEntries(flags) as Record<string, string>, text: rest }
    })
}

/** Of ARG, ENV and LABEL: `A=1 B="two words"`. */
export function pairsOf({ text }: Instruction): Record<string, string> {
  const found = [...text.matchAll(/([\w.]+)=(?:"((?:[^"\\]|\\.)*)"|(\S*))/g)]
  return Object.fromEntries(found.map(([, name, quoted, plain]) => [name, quoted ?? plain]))
}

/** Of CMD and ENTRYPOINT: a program and its arguments, with no shell between. */
export function execForm(text: string): string[] {
  if (!text.startsWith('[')) throw new Error(`a shell would be process 1: ${text}`)
  return JSON.parse(text) as string[]
}

export function named(stage: Stage, name: string): readonly Instruction[] {
  return stage.instructions.filter((instruction) => instruction.name === name)
}

/** The last one counts; an instruction that is not there is a mistake. */
export function last(stage: Stage, name: string): Instruction {
  const found = named(stage, name).at(-1)
  if (found === undefined) throw new Error(`no ${name} in the stage ${stage.alias}`)
  return found
}

/** What COPY takes from the context, stage by stage. */
export function copiedFromContext({ stages }: Dockerfile): string[] {
  return stages
    .flatMap((stage) => named(stage, 'COPY'))
    .filter(({ flags }) => flags['from'] === undefined)
    .flatMap(({ text }) => text.split(/\s+/).slice(0, -1))
}

/** Whether a path gets to the builder: the last line of the .dockerignore that names it or a folder above it decides. */
export function isSent(path: string, ignoreFile: string): boolean {
  let sent = true
  for (const line of ignoreFile.split('\n').map((text) => text.trim())) {
    if (line === '' || line.startsWith('#')) continue
    const kept = line.startsWith('!')
    if (globOf(kept ? line.slice(1) : line).test(path)) sent = kept
  }
  return sent
}

function globOf(pattern: string): RegExp {
  const parts = pattern.replace(/^\/|\/$/g, '').split('/')
  const source = parts.map((part) => (part === '**' ? '.*' : part.replace(/[.+^$()]/g, '\\$&').replace(/\*/g, '[^/]*')))
  return new RegExp(`^${source.join('/')}(/|$)`)
}
