import { readFileSync } from 'node:fs';

/*
 * How the search of the site counts. VitePress copies the text of the first two functions into the page, so that each names nothing
 * outside of it.
 */

/**
 * Makes a word of a page or of a question what is compared: in lower case, and no word at all if it says nothing.
 *
 * @param {string} term
 * @returns {string | null}
 */
export function processTerm(term) {
  const empty =
    ' a an and any are as at be by can do does for from get has have how i if in into is it its make me my need of on one or so than that the their them then there they this to use we what when where which will with you your ';
  const word = term
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}_@.$-]/gu, '')
    .replace(/[.-]+$/, '');
  return word === '' || empty.includes(` ${word} `)
    ? null
    : word.replace(/(?<=[a-z]{3})(?:ies$|s$)/, (end) => (end === 'ies' ? 'y' : ''));
}

/**
 * Guides go before the pages about the code, and before the API reference, which repeats most words.
 *
 * @param {string} page
 * @returns {number}
 */
export function boostDocument(page) {
  if (page.includes('/api/')) return 0.1;
  if (/\/(?:protocol-rules|architecture|path-of-a-call|decisions|comparison)/.test(page)) return 0.4;
  if (/\/(?:options|how-do-i|errors|migrating)/.test(page)) return 0.7;
  return 1;
}

/**
 * Reads the questions of the page "How do I …?" with the sections that answer them.
 *
 * @returns {{ question: string, targets: { page: string, anchor: string | undefined }[] }[]}
 */
export function questions() {
  const page = readFileSync(new URL('../how-do-i.md', import.meta.url), 'utf8');
  return page
    .split('\n### ')
    .slice(1)
    .map((part) => ({
      question: part.slice(0, part.indexOf('\n')).replaceAll(/^… |\?$/g, ''),
      targets: [...part.matchAll(/\]\(([\w/-]+)\.md(?:#([\w-]+))?\)/g)].map(([, page, anchor]) => ({ page, anchor })),
    }));
}

/**
 * Adds the questions that a section answers to its text in the index, so that the words of readers find it. The page itself is
 * not changed.
 *
 * @param {string} html
 * @param {string} relativePath
 */
export function withQuestions(html, relativePath) {
  const page = relativePath.replace(/\.md$/, '');
  let indexed = html;
  for (const { question, targets } of questions()) {
    for (const target of targets) {
      if (target.page !== page) continue;
      const heading = target.anchor ? `id="${target.anchor}"` : '<h1';
      const end = indexed.indexOf('>', indexed.indexOf('</h', indexed.indexOf(heading)));
      // Twice, since the words of a heading count more than those of a text.
      indexed = `${indexed.slice(0, end + 1)}<p>${question}. ${question}.</p>${indexed.slice(end + 1)}`;
    }
  }
  return indexed;
}

export const miniSearch = {
  options: { processTerm },
  searchOptions: { fuzzy: 0.1, prefix: true, boost: { title: 2, titles: 1, text: 1 }, boostDocument },
};
