// @ts-check
// Markdown of the repository into Markdown of the site. Pure.

import { posix } from 'node:path'

export const REPOSITORY = 'https://github.com/sluice-events/sluice'
/** Where files lie that are no pages of the site. */
const TREE = `${REPOSITORY}/blob/main/`
/** A page by its path, and perhaps one of its sections, as pages name each other. */
const NAMED = /(?<![\w./[`-])((?:docs|clients\/\w+)\/[\w-]+\.md|[A-Z]+\.md)(?:, "([^"]+)")?(?![\w`])/g
/** What is not prose: fenced code, code, and links that there are already. */
const NO_PROSE = /(```[^]*?```|`[^`\n]+`|!?\[[^\]]*\]\([^)]*\))/

/**
 * Makes links of the pages that a page names, and leads links to other files to the repository.
 * @param {string} text @param {string} path of the page @param {readonly string[]} pages all that the site has
 */
export function linked(text, path, pages) {
  // The site asks no other host for anything, and a badge is a picture of one.
  return text
    .replaceAll(/^\[!\[.*\n\n?/gm, '')
    .split(NO_PROSE)
    .map((part, at) => (at % 2 === 1 ? targeted(part, path, pages) : withLinks(part, path, pages)))
    .join('')
}

/** @param {string} prose @param {string} from @param {readonly string[]} pages */
function withLinks(prose, from, pages) {
  // The generator takes a path without a dot for a package.
  const plain = prose.replaceAll(/\b(src|srcset)="(?=[\w-]+\/)/g, '$1="./')
  return plain.replaceAll(NAMED, (whole, name, section) => {
    if (!pages.includes(name) || name === from) return whole
    const target = posix.relative(posix.dirname(from), name)
    return `[${whole}](${target.startsWith('.') ? target : `./${target}`}${section === undefined ? '' : `#${slugOf(section)}`})`
  })
}

/** @param {string} part @param {string} from @param {readonly string[]} pages */
function targeted(part, from, pages) {
  const link = /^\[([^\]]*)\]\(([^)#]+)(#[^)]*)?\)$/.exec(part)
  if (link === null || /^[a-z]+:/.test(link[2])) return part
  const target = posix.normalize(posix.join(posix.dirname(from), link[2]))
  const isPicture = /\.(png|svg|webp)$/.test(target)
  return pages.includes(target) || isPicture ? part : `[${link[1]}](${TREE}${target}${link[3] ?? ''})`
}

/** Of a heading, as the generator makes it. @param {string} heading */
function slugOf(heading) {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}]+/gu, '-')
    .replaceAll(/^-+|-+$/g, '')
}

/** @param {string} text @param {string} path */
export function titleOf(text, path) {
  return /^# (.+)$/m.exec(text)?.[1].replaceAll('`', '') ?? path
}

/** The first sentence below the title, as plain text. @param {string} text */
export function summaryOf(text) {
  const parts = text.replaceAll(/^```[^]*?^```$/gm, '').split(/\n\n+/)
  const paragraph = parts.find((part) => /^[\p{L}`*]/u.test(part.trim())) ?? ''
  const [sentence] = /^[^]*?[.:](?=\s|$)/.exec(paragraph.replaceAll('\n', ' ')) ?? [paragraph]
  return sentence
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replaceAll(/[*`]/g, '')
    .replace(/:$/, '.')
    .trim()
}

/**
 * The list that programs read first: https://llmstxt.org.
 * @param {readonly { name: string, pages: readonly string[] }[]} doors @param {(path: string) => string} read
 */
export function llmsText(doors, read) {
  const parts = doors.map(({ name, pages }) => {
    const lines = pages.map((path) => {
      const text = read(path)
      return `- [${titleOf(text, path)}](${path}): ${summaryOf(text)}`
    })
    return `## ${name}\n\n${lines.join('\n')}`
  })
  return `# sluice\n\n> ${summaryOf(read('README.md'))}\n\n${parts.join('\n\n')}\n`
}
