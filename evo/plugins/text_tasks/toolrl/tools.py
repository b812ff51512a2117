"""Sixty made-up tools in ten domains: name, description, and a user's request.

`{name:slot}` in the request is a parameter with its kind of value (the module `slots`); no tool has two of one slot.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from evo.plugins.text_tasks.toolrl.slots import SLOTS, Slot

PARAMETER = re.compile(r"\{(\w+):(\w+)\}")


@dataclass(frozen=True)
class Tool:
    """request: a clause that could follow "Please"."""

    domain: str
    name: str
    description: str
    request: str

    @cached_property
    def parameters(self) -> dict[str, Slot]:
        return {name: SLOTS[slot] for name, slot in PARAMETER.findall(self.request)}

    @cached_property
    def code(self) -> str | None:
        """The parameter that holds a reference code, which an earlier call may have found."""
        return next((name for name, slot in PARAMETER.findall(self.request) if slot == "code"), None)


_TABLE = """
weather
get_forecast | Gives the daily weather forecast of a city. | tell me the weather forecast for {city:city} over the next {days:days} days
get_rainfall | Gives the rainfall of a day. | look up how much it rained in {place:city} on {day:date}
get_air_quality | Measures the air quality of a city. | check the air quality in {city:city}
set_storm_alert | Sends storm warnings to an address. | send storm warnings for {region:country} to {email:email}
get_sunrise | Gives the time of sunrise. | find out when the sun rises in {city:city} on {date:date}
cancel_alert | Ends a weather alert. | end the weather alert {alert_id:code}
travel
search_flights | Finds flights to a city. | search flights to {destination:city} on {date:date} for at most {budget:amount} dollars
book_hotel | Books a hotel room. | book a hotel room in {city:city} for {nights:days} nights under the name of {guest:person}
cancel_booking | Cancels a booking. | cancel the booking {booking_id:code}
get_visa_rules | Tells the visa rules of a country. | look up the visa rules of {country:country}
order_taxi | Orders a taxi. | order a taxi to {address:street} at {time:clock}
change_seat | Moves a passenger to another seat. | move {passenger:person} to another seat on the ticket {ticket:code}
finance
convert_money | Converts dollars into another currency. | convert {amount:amount} dollars into {currency:currency}
send_payment | Pays a person. | pay {amount:amount} dollars to {recipient:person}
get_exchange_rate | Gives the rate of a currency on a day. | look up the exchange rate of {currency:currency} on {date:date}
freeze_card | Blocks a bank card. | block the card {card:code}
set_savings_rate | Sets the share of income that is saved. | save {share:percent} percent of my income from {start:date} on
get_tax_rate | Gives a country's rate of income tax. | find the income tax rate of {country:country}
music
play_song | Plays a piece of music. | play {title:title}
create_playlist | Makes a playlist on a topic. | make a playlist of {length:count} songs about {topic:topic}
find_concerts | Finds concerts in a city. | find concerts in {city:city} on {date:date}
get_lyrics | Gives the words of a song, translated. | show me the words of {song:title} in {language:language}
set_volume | Sets the loudness. | set the volume to {level:percent} percent
remove_playlist | Removes a playlist. | remove the playlist {playlist:code}
shopping
search_product | Finds a product in the shop. | search the shop for a {product:product} below {price:amount} dollars
order_items | Orders items. | order {items:items} to {address:street}
track_parcel | Tells where a parcel is. | find out where the parcel {parcel:code} is
return_item | Sends a product back. | send back the {product:product} of the order {order:code}
add_review | Rates a product. | rate the {product:product} at {score:percent} percent
set_delivery_time | Sets when an order is delivered. | have the order {order:code} delivered at {time:clock}
calendar
create_event | Puts a meeting into the calendar. | put a meeting about {topic:topic} into my calendar on {date:date} at {time:clock}
move_event | Moves a meeting to another day. | move the meeting {event:code} to {date:date}
invite_person | Invites somebody to a meeting. | invite {person:person} to the meeting {event:code}
list_events | Lists the meetings of a day. | list my meetings on {date:date}
set_reminder | Sets a reminder. | remind me of {topic:topic} at {time:clock}
count_workdays | Counts a country's working days after a date. | count the working days in {country:country} after {date:date}
mail
send_mail | Sends a message. | write a message about {topic:topic} to {recipient:email}
search_mail | Finds messages of a person. | find the messages of {sender:person} since {date:date}
translate_mail | Translates a message. | translate the message {message:code} into {language:language}
forward_mail | Forwards a message. | forward the message {message:code} to {recipient:email}
archive_mail | Puts old messages away. | put away all messages older than {days:days} days
set_out_of_office | Sets an automatic answer. | turn on the automatic answer until {until:date}
sport
get_result | Gives the last result of a team. | tell me the last result of the {team:team}
get_fixtures | Lists the next matches of a team. | list the matches of the {team:team} in the next {days:days} days
buy_tickets | Buys tickets for a match. | buy {number:count} tickets for the {team:team} on {date:date}
get_player | Tells about a player. | tell me about the player {player:person}
log_training | Records a training session. | record that I trained on {date:date} at {time:clock}
follow_team | Sends news of a team to an address. | send news of the {team:team} to {email:email}
home
set_heating | Heats the house at a time of day. | turn on the heating at {time:clock}
set_lights | Dims the lights. | dim the lights to {level:percent} percent
lock_door | Locks or unlocks the door. | set the lock of the front door (locked: {locked:flag})
add_groceries | Adds things to the grocery list. | add {items:items} to the grocery list
water_plants | Waters the garden for some days. | water the garden for the next {days:days} days
register_device | Adds a device to the house. | add the device {device:code} to the house (guests may use it: {guests:flag})
learning
find_course | Finds courses on a topic. | find courses on {topic:topic} in {language:language}
borrow_book | Borrows a book. | borrow the book {book:title} for {days:days} days
renew_loan | Renews a loan. | renew the loan {loan:code} for {days:days} more days
get_summary | Summarises a book. | summarise the book {book:title}
start_quiz | Starts a quiz. | start a quiz on {topic:topic} with {questions:count} questions
find_tutor | Finds a tutor. | find a tutor for {language:language} in {city:city}
"""  # noqa: E501


def _read(table: str) -> tuple[Tool, ...]:
    tools, domain = [], ""
    for line in table.strip().splitlines():
        if "|" in line:
            tools.append(Tool(domain, *(part.strip() for part in line.split("|"))))
        else:
            domain = line
    return tuple(tools)


TOOLS = _read(_TABLE)
