import { Injectable } from '@nestjs/common';
import { Skill } from 'nestjs-mcp-streamable/skills';

/** A skill tells models how to use the tools beside it. */
@Injectable()
export class DocsSkills {
  @Skill({
    name: 'answer-from-docs',
    description:
      'Answers a question from the documents of this server. Use it when the user asks what they say.',
  })
  answer(): string {
    return `# Answering from the documents

1. Search with \`search_docs\` for the question; for other words if no hit answers it.
2. Read the best documents as resources. A hit shows one line, which may say the contrary of its section.
3. Answer in your own words, and name the document of each fact.

Say so when no document has the answer.
`;
  }
}
