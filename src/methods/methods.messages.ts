import { shown } from '../wire/wire.messages.js';

/** What clients read of methods. */
export const methodMessages = {
  malformedParams: (method: string, path: string, problem: string) =>
    `The parameters of "${method}" are not as the specification has them: "${path}": ${problem}.`,
  badCursor: (cursor: string) => `The cursor ${shown(cursor)} is not one of this server. Start the list again.`,
  unknownTool: (name: string) => `There is no tool ${shown(name)}. "tools/list" names those there are.`,
  unknownPrompt: (name: string) => `There is no prompt ${shown(name)}. "prompts/list" names those there are.`,
  unknownReference: (ref: unknown) => `There is nothing to complete at ${shown(ref)}.`,
  unknownResultType: (method: string, type: unknown) =>
    `The handler of "${method}" returned the resultType ${shown(type)}, which that method does not have.`,
  urlElicitationThrown: () =>
    'Revision 2026-07-28 has no error that asks for a visit to a URL. Ask with ctx.elicit() and mode "url", or return inputRequired().',
};
