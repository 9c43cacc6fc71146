// The `sluice` program without its process: finds the command, runs it, and maps its result to an exit code.

import { type Command, EXIT, type Shell, say, UsageError } from './cli/shell.ts'
import { formatTable } from './cli/table.ts'
import { StartError } from './lib/errors.ts'
import { didYouMean } from './lib/near.ts'
import { packageVersion } from './lib/version.ts'

/** Each command is loaded when it is used, so that a small one does not load the whole service. */
const COMMANDS: Readonly<Record<string, { summary: string; load: () => Promise<Command> }>> = {
  serve: { summary: 'take events over HTTP', load: () => import('./cli/serve/serve.ts') },
  apps: { summary: 'list, add, change and remove app records', load: () => import('./cli/apps/apps.ts') },
  tail: { summary: 'print events as they are queued', load: () => import('./cli/tail/tail.ts') },
  find: { summary: 'say where a batch is, and who has had it', load: () => import('./cli/find/find.ts') },
  usage: { summary: 'say how much of its limits an app has used', load: () => import('./cli/usage/usage.ts') },
  explain: { summary: 'say what would happen to a body, and why', load: () => import('./cli/explain/explain.ts') },
  verify: {
    summary: 'read all that is stored, and list what is damaged',
    load: () => import('./cli/verify/verify.ts'),
  },
  spool: { summary: 'look into a spool, check it, or send what it holds', load: () => import('./cli/spool/spool.ts') },
  demo: { summary: 'send the events of a made-up shop', load: () => import('./cli/demo/demo.ts') },
  check: { summary: 'test settings, files and ports', load: () => import('./cli/check/check.ts') },
}

const HELP = `Usage: sluice COMMAND [OPTIONS]

Commands:
${formatTable(Object.entries(COMMANDS).map(([name, { summary }]) => [`  ${name}`, summary]))}
  sluice help COMMAND     how to use one, with an example; also: sluice COMMAND --help
  sluice version          the version; also: sluice --version

Settings come from environment variables: sluice serve --help lists them.
`

/** `args`: without those of Node. Resolves with the exit code. */
export async function program(args: readonly string[], shell: Shell): Promise<number> {
  const [name = '', ...rest] = args
  switch (name) {
    case '':
      void say(shell, HELP)
      return EXIT.usage
    case 'help':
    case '--help':
    case '-h':
      // `help help` has nothing more to say.
      return rest.length === 0 || rest[0] === 'help' ? printed(HELP, shell) : runNamed(rest[0], ['--help'], shell)
    case 'version':
    case '--version':
    case '-v':
      return printed(`${packageVersion()}\n`, shell)
    default:
      return runNamed(name, rest, shell)
  }
}

async function runNamed(name: string, args: readonly string[], shell: Shell): Promise<number> {
  const entry = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined
  if (entry === undefined) {
    const near = didYouMean(name, [...Object.keys(COMMANDS), 'help', 'version'])
    void say(shell, `sluice: no such command: ${name}${near}\nAll commands: sluice --help\n`)
    return EXIT.usage
  }
  try {
    const command = await entry.load()
    return asksForHelp(args) ? printed(command.help, shell) : await command.run(args, shell)
  } catch (error) {
    return reportError(name, error, shell)
  }
}

function printed(text: string, shell: Shell): number {
  shell.stdout.write(text)
  return EXIT.ok
}

function reportError(name: string, error: unknown, shell: Shell): number {
  if (error instanceof UsageError) {
    void say(shell, `sluice ${name}: ${error.message}\nHow to use it: sluice ${name} --help\n`)
    return EXIT.usage
  }
  const text = isForPeople(error) ? error.message : error instanceof Error ? error.stack : String(error)
  void say(shell, `sluice ${name}: ${text}\n`)
  return EXIT.failed
}

/** An error of a system call names the file and the reason; a stack would add nothing. */
function isForPeople(error: unknown): error is Error {
  return error instanceof StartError || (error instanceof Error && 'syscall' in error)
}

export function asksForHelp(args: readonly string[]): boolean {
  const end = args.indexOf('--')
  return (end === -1 ? args : args.slice(0, end)).some((arg) => arg === '--help' || arg === '-h')
}
