import {
  Body,
  Controller,
  Delete,
  Get,
  Param,
  ParseIntPipe,
  Post,
  Query,
} from '@nestjs/common';
import { ApiOkResponse, ApiOperation, ApiCreatedResponse } from '@nestjs/swagger';
import { Confirm, Tool, Tools } from 'nestjs-mcp-streamable';
import type { Caller } from '../auth/auth.service.js';
import { CurrentCaller, Roles } from '../auth/guards.js';
import { ContactDto, CreateContactDto, FindContactsDto } from './contact.dto.js';
import { ContactsService } from './contacts.service.js';

/** Its routes are tools: `contacts_find`, `contacts_create` and `contacts_remove`. */
@Controller('contacts')
@Tools()
export class ContactsController {
  constructor(private readonly contacts: ContactsService) {}

  @Get()
  @ApiOperation({ summary: 'Find contacts', description: 'Finds contacts by their name' })
  @ApiOkResponse({ type: [ContactDto] })
  find(
    @CurrentCaller() { tenant }: Caller,
    @Query() { name }: FindContactsDto,
  ): Promise<ContactDto[]> {
    return this.contacts.find(tenant, name);
  }

  @Post()
  @ApiOperation({ summary: 'Add a contact', description: 'Adds a contact' })
  @ApiCreatedResponse({ type: ContactDto })
  @Tool({ annotations: { destructiveHint: false } })
  create(
    @CurrentCaller() { tenant }: Caller,
    @Body() contact: CreateContactDto,
  ): Promise<ContactDto> {
    return this.contacts.create(tenant, contact);
  }

  /** Managers alone see it, and their client asks them first. */
  @Delete(':id')
  @Roles(['manager'])
  @ApiOperation({
    summary: 'Delete a contact',
    description: 'Deletes a contact and its deals',
  })
  @Confirm('Delete the contact {id}, and all of its deals?')
  async remove(
    @CurrentCaller() { tenant }: Caller,
    @Param('id', ParseIntPipe) id: number,
  ): Promise<{ removed: number }> {
    await this.contacts.remove(tenant, id);
    return { removed: id };
  }
}
